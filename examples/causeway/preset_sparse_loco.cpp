// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/compressed.hpp>

#include "policies.hpp"
#include "run_preset.hpp"

namespace app {

causeway::result<session_summary> train_sparse_loco(chosen_model model, session_input& in, causeway::environment env) {
  const auto& c = in.s.comm;
  const causeway::presets::sparse_loco_options o{.local_steps = c.local_steps,
                                                 .k = c.sparse_k,
                                                 .error_decay = c.error_decay,
                                                 .outer_learning_rate = c.outer_learning_rate};
  return run_preset(std::move(model), in, std::move(env), causeway::presets::make(o), pace::together);
}

}  // namespace app
