// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/compressed.hpp>

#include "policies.hpp"
#include "run_policy.hpp"

namespace app {

causeway::result<session_summary> train_sparse_loco(chosen_model model, training t) {
  const auto& c = t.in.s.comm;
  const causeway::presets::sparse_loco_options o{.local_steps = c.local_steps,
                                                 .k = c.sparse_k,
                                                 .error_decay = c.error_decay,
                                                 .outer_learning_rate = c.outer_learning_rate};
  return run_policy(std::move(model), std::move(t), causeway::presets::make(o), pace::together);
}

}  // namespace app
