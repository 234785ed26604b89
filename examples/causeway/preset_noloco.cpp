// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/gossip.hpp>

#include "policies.hpp"
#include "run_preset.hpp"

namespace app {

causeway::result<session_summary> train_noloco(chosen_model model, session_input& in, causeway::environment env) {
  const auto& c = in.s.comm;
  const causeway::presets::noloco_options o{.local_steps = c.local_steps,
                                            .group_size = c.group_size,
                                            .outer = {.alpha = c.outer_momentum, .beta = c.outer_learning_rate}};
  return run_preset(std::move(model), in, std::move(env), causeway::presets::make(o), pace::overlapping);
}

}  // namespace app
