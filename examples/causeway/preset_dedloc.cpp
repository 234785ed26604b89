// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/compressed.hpp>

#include "policies.hpp"
#include "run_preset.hpp"

namespace app {

causeway::result<session_summary> train_dedloc(chosen_model model, session_input& in, causeway::environment env) {
  const auto& c = in.s.comm;
  causeway::presets::dedloc_options o;
  o.batch = c.batch_samples;
  return run_preset(std::move(model), in, std::move(env), causeway::presets::make(o), pace::rounds);
}

}  // namespace app
