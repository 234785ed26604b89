// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/async_pipeline.hpp>
#include <causeway/parallel/pipeline.hpp>
#include <causeway/stage/subspace_basis.hpp>
#include <causeway/stage/subspace_pieces.hpp>
#include <causeway/train/trainer.hpp>

#include <utility>

#include "chosen_pipeline.hpp"
#include "run_policy.hpp"
#include "run_trainer.hpp"

namespace app {
namespace {

/// Puts the model into the subspace that crosses between stages, and gives the optimizer that keeps it there. A run that is
/// resumed gets parameters that lie in it.
causeway::result<chosen_inner> confined(const settings& s, const causeway::stage::subspace_options& o,
                                        chosen_model& model) {
  namespace stage = causeway::stage;
  CAUSEWAY_ASSIGN(stage::subspace_basis basis, stage::subspace_basis::random(o.seed, model.width(), o.rank));
  stage::confine(model.backend().pool(), model.parameters(), basis, stage::residual_writers());
  return chosen_inner{s.train.weight_decay, std::move(basis)};
}

}  // namespace

causeway::result<session_summary> train_pipeline(chosen_model model, training t, chosen_policy comm) {
  const settings& s = t.in.s;
  const auto& p = s.parallel;
  chosen_inner inner = inner_of(s);
  if (is_async_pipeline(s)) {
    causeway::parallel::async_pipeline<late_activations> parallel{
        {.cut = pipeline_options_of(s), .stashing = p.stashing, .ahead = p.ahead}, late_activations{p.codec, p.ratio}};
    return run_trainer(std::move(model), std::move(t), std::move(comm), std::move(inner), std::move(parallel),
                       pace::in_step);
  }
  const auto space = subspace_of(s, model.width());
  if (p.codec == "subspace") {
    CAUSEWAY_ASSIGN(inner, confined(s, space, model));
  }
  causeway::parallel::pipeline<chosen_schedule, chosen_activations> parallel{
      pipeline_options_of(s), chosen_schedule{p.schedule}, chosen_activations{p.codec, p.ratio, space}};
  return run_trainer(std::move(model), std::move(t), std::move(comm), std::move(inner), std::move(parallel), pace::in_step);
}

}  // namespace app
