// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/async_pipeline.hpp>
#include <causeway/parallel/pipeline.hpp>
#include <causeway/train/trainer.hpp>

#include <utility>

#include "chosen_pipeline.hpp"
#include "run_policy.hpp"
#include "run_trainer.hpp"

namespace app {
causeway::result<session_summary> train_pipeline(chosen_model model, training t, chosen_policy comm) {
  const settings& s = t.in.s;
  const auto& p = s.parallel;
  CAUSEWAY_ASSIGN(chosen_inner inner, inner_of_stages(s, model));
  if (is_async_pipeline(s)) {
    causeway::parallel::async_pipeline<late_activations> parallel{
        {.cut = pipeline_options_of(s), .stashing = p.stashing, .ahead = p.ahead}, late_activations{p.codec, p.ratio}};
    if (comm.traits().exchanges_gradients) {
      return run_trainer<causeway::comm_traits{.exchanges_gradients = true}>(
          std::move(model), std::move(t), std::move(comm), std::move(inner), std::move(parallel), pace::in_step);
    }
    return run_trainer(std::move(model), std::move(t), std::move(comm), std::move(inner), std::move(parallel),
                       pace::in_step);
  }
  causeway::parallel::pipeline<chosen_schedule, chosen_activations> parallel{
      pipeline_options_of(s), chosen_schedule{p.schedule},
      chosen_activations{p.codec, p.ratio, subspace_of(s, model.width())}};
  return run_trainer(std::move(model), std::move(t), std::move(comm), std::move(inner), std::move(parallel), pace::in_step);
}

}  // namespace app
