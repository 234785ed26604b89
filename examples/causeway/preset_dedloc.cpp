// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/compressed.hpp>

#include "policies.hpp"
#include "run_policy.hpp"

namespace app {

causeway::result<session_summary> train_dedloc(chosen_model model, training t) {
  const auto& c = t.in.s.comm;
  causeway::presets::dedloc_options o;
  o.batch = c.batch_samples;
  return run_policy(std::move(model), std::move(t), causeway::presets::make(o), pace::rounds);
}

}  // namespace app
