// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/gossip.hpp>

#include "policies.hpp"
#include "run_policy.hpp"

namespace app {

causeway::result<session_summary> train_noloco(chosen_model model, training t) {
  const auto& c = t.in.s.comm;
  const causeway::presets::noloco_options o{.local_steps = c.local_steps,
                                            .group_size = c.group_size,
                                            .outer = {.alpha = c.outer_momentum, .beta = c.outer_learning_rate}};
  return run_policy(std::move(model), std::move(t), causeway::presets::make(o), pace::overlapping);
}

}  // namespace app
