// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/compressed.hpp>

#include "policies.hpp"
#include "run_preset.hpp"

namespace app {

causeway::result<session_summary> train_demo(chosen_model model, session_input& in, causeway::environment env) {
  const auto& c = in.s.comm;
  const causeway::presets::demo_options o{.k = c.sparse_k};
  causeway::optim::sgd inner{{.weight_decay = in.s.train.weight_decay}};
  return run_composed(std::move(model), in, std::move(env), std::move(inner), causeway::presets::make(o), pace::together);
}

}  // namespace app
