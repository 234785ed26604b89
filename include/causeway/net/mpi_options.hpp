// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_MPI_OPTIONS_HPP
#define CAUSEWAY_NET_MPI_OPTIONS_HPP

// What a transport over MPI may be told.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>

#include <chrono>
#include <cstddef>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

struct mpi_transport_options {
  std::size_t inline_bytes = std::size_t{4} << 10U;  ///< longest content that is copied beside its name; equal on all ranks
  std::size_t kept_bytes = std::size_t{64}
                           << 20U;  ///< of messages taken before their receive is started; more stays with the senders
  duration close_grace = std::chrono::seconds{2};  ///< how long MPI may take for bytes that are already moving when a
                                                   ///< deadline passes, or at the end
  /// Plain sums of f32 over all ranks are MPI_Iallreduce's, whose order is MPI's: with more than two ranks the last bits
  /// may be others than those of TCP. false: messages carry them, with the bits of any network. Equal on all ranks.
  bool own_sums = true;
};

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_MPI_OPTIONS_HPP
