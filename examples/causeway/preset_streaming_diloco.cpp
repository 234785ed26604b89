// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/overlapped.hpp>

#include "policies.hpp"
#include "run_policy.hpp"

namespace app {

causeway::result<session_summary> train_streaming_diloco(chosen_model model, training t) {
  const auto& c = t.in.s.comm;
  const causeway::presets::streaming_diloco_options o{.local_steps = c.local_steps,
                                                      .blocks_in_fragment = c.fragment_blocks,
                                                      .overlap_steps = c.overlap_steps,
                                                      .local_share = c.local_share,
                                                      .outer_learning_rate = c.outer_learning_rate,
                                                      .outer_momentum = c.outer_momentum};
  auto& store = model.parameters();
  CAUSEWAY_ASSIGN(const auto fragments,
                  causeway::axis::strided{c.fragment_blocks}.cut(store.segments(), store.values().size()));
  return run_policy(std::move(model), std::move(t), causeway::presets::make(o), pace::overlapping, fragments.size());
}

}  // namespace app
