// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_ENVIRONMENT_HPP
#define CAUSEWAY_TRAIN_ENVIRONMENT_HPP

// What a training is given besides its model and its policies: where it runs, and what is the same on all peers.

#include <causeway/collective/options.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/optim/schedule.hpp>
#include <causeway/train/run_group.hpp>

#include <cstdint>
#include <memory>

namespace causeway { inline namespace CAUSEWAY_ABI {

/// Where a peer runs: its network, its clock, and where its messages go. `exchange` says how sums travel (deadline, chunks,
/// algorithm) and must be equal on all peers: collective::tuned_for_streams makes it for links of several streams. Its pool
/// and workspace are the context's to set.
struct environment {
  net::any_transport transport{};
  any_clock clock{};
  log_sink log{};
  collective::collective_options exchange{};
  /// Peers that come and go, for fault::quorum; `transport` is not used then. train/member.hpp makes one.
  std::shared_ptr<run_group> group{};
};

struct trainer_options {
  std::uint64_t seed = 1;  ///< of everything random in the run; equal on all peers
  optim::schedule learning_rate = optim::constant{3e-4F};
  float clip_norm = 1.0F;        ///< of the whole gradient; 0 = no clipping
  std::uint32_t hash_every = 1;  ///< rounds between full hashes of the committed parameters; 0 = never
};

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_ENVIRONMENT_HPP
