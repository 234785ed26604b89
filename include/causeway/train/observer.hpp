// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_OBSERVER_HPP
#define CAUSEWAY_TRAIN_OBSERVER_HPP

// What a trainer reports, and who is told. Reports are plain values; observers are called on the trainer's thread.

#include <cstdint>
#include <functional>

namespace causeway { inline namespace CAUSEWAY_ABI {

/// One committed inner step of this peer.
struct step_report {
  std::uint64_t step = 0;        ///< inner steps committed, this one included
  std::uint64_t round = 0;       ///< outer rounds committed
  double loss = 0;               ///< mean over this peer's batch, in nats per token
  std::int64_t tokens = 0;       ///< of this peer's batch; 0: it was not drawn for the round, and did not train
  float learning_rate = 0;       ///< of the inner step
  float gradient_norm = 0;       ///< before clipping
  double compute_seconds = 0;    ///< forward, backward and optimizer
  double exchange_seconds = 0;   ///< blocked in the hooks of the communication policy
  bool by_others = false;        ///< this peer's attempt failed, and it took over what others committed: no loss of it
  bool committed_round = false;  ///< whether an outer round was committed in this step
  std::uint64_t state_hash = 0;  ///< of the committed parameters, where one was made in this step; else 0
};

/// Called after every committed step.
using step_observer = std::function<void(const step_report&)>;

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_OBSERVER_HPP
