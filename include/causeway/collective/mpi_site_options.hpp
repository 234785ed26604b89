// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_MPI_SITE_OPTIONS_HPP
#define CAUSEWAY_COLLECTIVE_MPI_SITE_OPTIONS_HPP

// How the ranks of an MPI job can make a sum, and what a site of them may be told.

#include <causeway/core/thread_pool.hpp>

#include <cstddef>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// How the ranks of a job make a sum.
enum class mpi_way : std::uint8_t {
  all_reduce,  ///< MPI_Iallreduce
  in_parts,    ///< MPI_Ireduce_scatter, then MPI_Iallgatherv
  messages,    ///< collective::all_reduce_sum over net::mpi_transport, in the order of the ranks: the bits of any transport
  direct,      ///< all to all, added here in the same order: f32 of up to 16 KiB, else as all_reduce
  shared       ///< in memory that all ranks share, in the same order: f32 on one host, else as all_reduce
};
inline constexpr mpi_way mpi_ways[] = {mpi_way::all_reduce, mpi_way::in_parts, mpi_way::messages, mpi_way::direct,
                                       mpi_way::shared};

struct mpi_site_options {
  std::size_t measure_up_to = 0;  ///< as `measure`, when the site is opened; 0: nothing is timed
  /// Only `shared` or `messages`: sums have the same bits over any network, on any number of hosts.
  bool same_bits = false;
  thread_pool* pool = nullptr;  ///< for what is computed here; none: the caller's thread. Must outlive the site
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_MPI_SITE_OPTIONS_HPP
