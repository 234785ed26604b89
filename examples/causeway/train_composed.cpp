// SPDX-License-Identifier: Apache-2.0
#include "elastic_trainer.hpp"
#include "policies.hpp"
#include "run_policy.hpp"

namespace app {

causeway::result<session_summary> train_composed(chosen_model model, training t) {
  return with_comm(t.in.s, [&](auto comm) {
    if (t.place != nullptr && !has_stages(t.in.s)) return train_elastic(std::move(model), std::move(t), std::move(comm));
    return run_policy(std::move(model), std::move(t), chosen_policy{std::move(comm)}, pace::together);
  });
}

}  // namespace app
