// SPDX-License-Identifier: Apache-2.0
// What calls MPI, for the implementation that is tested: the compiled library may have that of another.

#ifdef CAUSEWAY_COMPILED
#include <causeway/net/impl/mpi_world.ipp>

#include <causeway/net/impl/mpi_engine.ipp>

#include <causeway/net/impl/mpi_transport.ipp>

#include <causeway/collective/impl/mpi_sums.ipp>

#include <causeway/collective/impl/mpi_site.ipp>
#endif
