// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/asynchronous.hpp>

#include "policies.hpp"
#include "run_policy.hpp"

namespace app {

causeway::result<session_summary> train_async_local_sgd(chosen_model model, training t) {
  const auto& c = t.in.s.comm;
  const causeway::presets::async_local_sgd_options o{.local_steps = c.local_steps,
                                                     .period = t.in.s.net.peers,
                                                     .outer_learning_rate = c.outer_learning_rate,
                                                     .outer_momentum = c.outer_momentum};
  return run_policy(std::move(model), std::move(t), causeway::presets::make(o), pace::nothing);
}

}  // namespace app
