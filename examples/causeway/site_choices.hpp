// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_SITE_CHOICES_HPP
#define CAUSEWAY_EXAMPLES_SITE_CHOICES_HPP

// Whether MPI's own collectives or messages of ours make the sums and broadcasts of a site: what is quicker for a size, as
// it was timed when the run began. It is kept beside the run, because the order of a sum is its way's: a run that goes on
// has the bits of one that was never stopped.

#include <causeway/collective/mpi_site.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/mpi_world.hpp>

#include <cstddef>
#include <string>

namespace app {

/// All ranks of `group` call it, with the length of the longest sum. Only the first one reads and writes `file`, which is
/// written anew where it is of another number of ranks, another MPI or other lengths.
causeway::result<void> choose_ways(causeway::collective::mpi_site& site, const causeway::net::mpi_world& group,
                                   const std::string& file, std::size_t bytes);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_SITE_CHOICES_HPP
