// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/pipeline.hpp>
#include <causeway/train/trainer.hpp>

#include <utility>

#include "chosen_pipeline.hpp"
#include "compose.hpp"
#include "run_policy.hpp"
#include "run_trainer.hpp"

namespace app {

causeway::result<session_summary> train_pipeline(chosen_model model, training t, chosen_policy comm) {
  const settings& s = t.in.s;
  causeway::parallel::pipeline<chosen_schedule, chosen_activations> parallel{
      pipeline_options_of(s), chosen_schedule{s.parallel.schedule}, chosen_activations{s.parallel.codec, s.parallel.ratio}};
  return run_trainer(causeway::make_trainer(std::move(model), std::move(t.env), trainer_options_of(s), inner_of(s),
                                            chosen_comm<causeway::comm_traits{}>{std::move(comm)}, std::move(parallel)),
                     t.in, pace::in_step);
}

}  // namespace app
