// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/local_updates.hpp>

#include "policies.hpp"
#include "run_preset.hpp"

namespace app {

causeway::result<session_summary> train_photon(chosen_model model, session_input& in, causeway::environment env) {
  const auto& c = in.s.comm;
  const causeway::presets::photon_options o{.local_steps = c.local_steps,
                                            .share = c.share,
                                            .outer_learning_rate = c.outer_learning_rate,
                                            .outer_momentum = c.outer_momentum};
  return run_preset(std::move(model), in, std::move(env), causeway::presets::make(o), pace::together);
}

}  // namespace app
