// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/local_updates.hpp>

#include "policies.hpp"
#include "run_policy.hpp"

namespace app {

causeway::result<session_summary> train_fedavg(chosen_model model, training t) {
  const auto& c = t.in.s.comm;
  const causeway::presets::fedavg_options o{.local_steps = c.local_steps, .share = c.share};
  return run_policy(std::move(model), std::move(t), causeway::presets::make(o), pace::together);
}

}  // namespace app
