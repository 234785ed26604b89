// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_TRAIN_STAGES_HPP
#define CAUSEWAY_EXAMPLES_TRAIN_STAGES_HPP

// A run of pipelines whose peers come and go. It instantiates much: include it in few files.

#include <causeway/core/result.hpp>
#include <causeway/fault/quorum.hpp>
#include <causeway/parallel/pipeline.hpp>
#include <causeway/train/pipeline_executors.hpp>
#include <causeway/train/trainer.hpp>

#include <utility>

#include "chosen_pipeline.hpp"
#include "compose.hpp"
#include "elastic_session.hpp"
#include "run_policy.hpp"

namespace app {

/// The stages that a recovery cuts, each in the order of `schedule`.
template <class Schedule>
auto stages_in_order(const settings& s, const chosen_model& model, Schedule schedule) {
  return causeway::parallel::pipeline{causeway::parallel::pipeline_options{.micro_batches = s.train.micro_batches},
                                      std::move(schedule), forgetful_of(s, model.width())};
}

/// `saved`: where copies of stages go, and how often.
template <class Comm, class Parallel, class Recovery>
causeway::result<session_summary> train_stages(chosen_model model, training t, causeway::fault::quorum_options saved,
                                               Comm comm, Parallel parallel, Recovery recovery) {
  CAUSEWAY_ASSIGN(chosen_inner inner, inner_of_stages(t.in.s, model));
  auto trainer = causeway::make_trainer(std::move(model), std::move(t.env), trainer_options_of(t.in.s), std::move(inner),
                                        std::move(comm), std::move(parallel),
                                        causeway::fault::quorum{std::move(recovery), std::move(saved)});
  handle_of handle{trainer};
  return run_session(handle, t.in, *t.place);
}

/// Where a recovery cuts pipelines apart, or gives a peer several stages.
causeway::result<session_summary> train_stages_apart(chosen_model model, training t, chosen_policy comm,
                                                     causeway::fault::quorum_options saved);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_TRAIN_STAGES_HPP
