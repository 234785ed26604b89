// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/asynchronous.hpp>

#include "policies.hpp"
#include "run_policy.hpp"

namespace app {

causeway::result<session_summary> train_decoupled_diloco(chosen_model model, training t) {
  const auto& c = t.in.s.comm;
  const causeway::presets::decoupled_diloco_options o{.local_steps = c.local_steps,
                                                      .fragments = c.fragments,
                                                      .overlap_steps = c.overlap_steps,
                                                      .local_share = c.local_share,
                                                      .quorum = c.quorum,
                                                      .outer_learning_rate = c.outer_learning_rate,
                                                      .outer_momentum = c.outer_momentum};
  return run_policy(std::move(model), std::move(t), causeway::presets::make(o), pace::nothing);
}

}  // namespace app
