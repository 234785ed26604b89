// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/async_pipeline.hpp>
#include <causeway/train/trainer.hpp>

#include <utility>

#include "chosen_pipeline.hpp"
#include "compose.hpp"
#include "run_policy.hpp"
#include "run_trainer.hpp"

namespace app {

causeway::result<session_summary> train_async_pipeline(chosen_model model, training t, chosen_policy comm) {
  const settings& s = t.in.s;
  causeway::parallel::async_pipeline<chosen_activations> parallel{
      {.cut = pipeline_options_of(s), .stashing = s.parallel.stashing, .ahead = s.parallel.ahead},
      chosen_activations{s.parallel.codec, s.parallel.ratio}};
  return run_trainer(causeway::make_trainer(std::move(model), std::move(t.env), trainer_options_of(s), inner_of(s),
                                            chosen_comm<causeway::comm_traits{}>{std::move(comm)}, std::move(parallel)),
                     t.in, pace::in_step);
}

}  // namespace app
