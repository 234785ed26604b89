// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/asynchronous.hpp>

#include "policies.hpp"
#include "run_preset.hpp"

namespace app {

causeway::result<session_summary> train_decoupled_diloco(chosen_model model, session_input& in, causeway::environment env) {
  const auto& c = in.s.comm;
  const causeway::presets::decoupled_diloco_options o{.local_steps = c.local_steps,
                                                      .fragments = c.fragments,
                                                      .overlap_steps = c.overlap_steps,
                                                      .local_share = c.local_share,
                                                      .quorum = c.quorum,
                                                      .outer_learning_rate = c.outer_learning_rate,
                                                      .outer_momentum = c.outer_momentum};
  return run_preset(std::move(model), in, std::move(env), causeway::presets::make(o), pace::nothing);
}

}  // namespace app
