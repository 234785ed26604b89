// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/every_step.hpp>
#include <causeway/comm/periodic.hpp>
#include <causeway/parallel/pipeline.hpp>
#include <causeway/train/trainer.hpp>

#include <utility>

#include "chosen_pipeline.hpp"
#include "compose.hpp"
#include "run_model.hpp"
#include "run_trainer.hpp"

namespace app {

causeway::result<session_summary> train_pipeline(chosen_model model, training t) {
  session_input& in = t.in;
  return with_comm(in.s, [&](auto comm) {
    causeway::parallel::pipeline<chosen_schedule, chosen_activations> parallel{
        pipeline_options_of(in.s), chosen_schedule{in.s.parallel.schedule}, chosen_activations{in.s.parallel.codec}};
    return run_trainer(causeway::make_trainer(std::move(model), std::move(t.env), trainer_options_of(in.s), inner_of(in.s),
                                              std::move(comm), std::move(parallel)),
                       in, pace::in_step);
  });
}

}  // namespace app
