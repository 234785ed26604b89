// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/compressed.hpp>

#include "policies.hpp"
#include "run_policy.hpp"

namespace app {

causeway::result<session_summary> train_sparta(chosen_model model, training t) {
  const auto& c = t.in.s.comm;
  const causeway::presets::sparta_options o{.share = c.share};
  return run_policy(std::move(model), std::move(t), causeway::presets::make(o), pace::together);
}

}  // namespace app
