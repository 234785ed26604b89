// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/gossip.hpp>

#include "policies.hpp"
#include "run_policy.hpp"

namespace app {

causeway::result<session_summary> train_moshpit_sgd(chosen_model model, training t) {
  const auto& c = t.in.s.comm;
  const causeway::presets::moshpit_sgd_options o{
      .local_steps = c.local_steps, .side = c.group_size, .dimensions = c.dimensions};
  return run_policy(std::move(model), std::move(t), causeway::presets::make(o), pace::overlapping);
}

}  // namespace app
