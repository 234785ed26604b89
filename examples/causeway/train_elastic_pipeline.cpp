// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/every_step.hpp>
#include <causeway/fault/quorum.hpp>
#include <causeway/io/file.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/parallel/elastic_pipeline.hpp>
#include <causeway/parallel/local_async_pipeline.hpp>
#include <causeway/parallel/local_pipeline.hpp>
#include <causeway/stage/recovery.hpp>
#include <causeway/stage/recovery_neighbour.hpp>
#include <causeway/stage/recovery_redundant_forward.hpp>
#include <causeway/stage/recovery_swapped.hpp>
#include <causeway/stage/schedules.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "chosen_pipeline.hpp"
#include "chosen_recovery.hpp"
#include "compose.hpp"
#include "elastic_session.hpp"
#include "policies.hpp"
#include "run_policy.hpp"

namespace app {

namespace {

causeway::stage::neighbour_options neighbours_of(const settings& s) {
  using causeway::stage::neighbour_weights;
  return {.stages = stages_wanted(s),
          .rate_factor = s.parallel.neighbour_rate,
          .weights = s.parallel.neighbour_weights == "clipped_norms" ? neighbour_weights::clipped_norms
                                                                     : neighbour_weights::squared_norms};
}

constexpr causeway::comm_traits traits_of_local_steps{
    .tolerates = causeway::peers::elastic, .allows_late_steps = true, .moves_with_blocks = true};

// Replicas take steps of their own. Each of the fragments has its turn within a round, which the pipeline counts.
causeway::result<session_summary> train_local_pipeline(chosen_model model, training t, chosen_policy comm,
                                                       std::uint64_t fragments) {
  session_input& in = t.in;
  elastic_place& place = *t.place;
  using regroup = causeway::stage::recovery::regroup;
  const bool by_steps =
      comm.traits().rounds_by_steps || comm.traits().divides_batches;  // else a record is of several rounds
  const std::uint64_t every = by_steps ? in.s.train.checkpoint_every * fragments / steps_of_round(in.s) : 1;
  const causeway::parallel::local_pipeline_options options{
      .micro_batches = in.s.train.micro_batches,
      .storage = place.storage,
      .folder = block_folder(in.s),
      .store_every = in.s.train.checkpoint_every > 0 ? std::max<std::uint64_t>(1, every) : 0,
      .steps = in.s.train.steps};
  const auto train = [&](auto steps) {
    causeway::parallel::local_pipeline pipeline{place.pipelines, options, regroup{stages_wanted(in.s)}, std::move(steps),
                                                forgetful_of(in.s, model.width())};
    auto trainer = causeway::make_trainer(std::move(model), std::move(t.env), trainer_options_of(in.s), inner_of(in.s),
                                          chosen_comm<traits_of_local_steps>{std::move(comm)}, std::move(pipeline),
                                          causeway::fault::quorum{});
    handle_of handle{trainer};
    return run_session(handle, in, place);
  };
  const auto& p = in.s.parallel;
  if (!is_async_pipeline(in.s)) return train(chosen_schedule{p.schedule});
  return train(causeway::parallel::streamed_steps{{.stashing = p.stashing, .ahead = p.ahead}});
}

}  // namespace

causeway::result<session_summary> train_elastic_pipeline(chosen_model model, training t, chosen_policy comm,
                                                         std::uint64_t fragments) {
  if (steps_alone(t.in.s)) return train_local_pipeline(std::move(model), std::move(t), std::move(comm), fragments);
  session_input& in = t.in;
  elastic_place& place = *t.place;
  const causeway::parallel::elastic_pipeline_options options{.micro_batches = in.s.train.micro_batches,
                                                             .storage = place.storage,
                                                             .folder = block_folder(in.s),
                                                             .store_every = in.s.train.checkpoint_every,
                                                             .steps = in.s.train.steps};
  CAUSEWAY_ASSIGN(chosen_inner inner, inner_of_stages(in.s, model));
  const auto train = [&](auto recovery, auto schedule, auto gradients) {
    causeway::parallel::elastic_pipeline pipeline{place.pipelines, options, std::move(recovery), std::move(schedule),
                                                  forgetful_of(in.s, model.width())};
    auto trainer = causeway::make_trainer(std::move(model), std::move(t.env), trainer_options_of(in.s), std::move(inner),
                                          std::move(gradients), std::move(pipeline), causeway::fault::quorum{});
    handle_of handle{trainer};
    return run_session(handle, in, place);
  };
  if (exchanges_gradients(in.s)) {
    constexpr causeway::comm_traits by_blocks{
        .tolerates = causeway::peers::elastic, .exchanges_gradients = true, .moves_with_blocks = true};
    return train(chosen_recovery{in.s}, chosen_schedule{in.s.parallel.schedule}, chosen_comm<by_blocks>{std::move(comm)});
  }
  const causeway::comm::every_step<> sum;
  const chosen_schedule schedule{in.s.parallel.schedule};
  // It makes up what is lost, which is a property of its type.
  if (in.s.parallel.recovery == "neighbour_init") {
    return train(causeway::stage::recovery::neighbour_init{neighbours_of(in.s)}, schedule, sum);
  }
  using causeway::stage::one_f_one_b;
  if (joins_ends(in.s)) {
    return train(causeway::stage::recovery::swapped_neighbours{neighbours_of(in.s)}, one_f_one_b{}, sum);
  }
  if (in.s.parallel.recovery != "redundant_forward") return train(chosen_recovery{in.s}, schedule, sum);
  // It keeps work and has an order of its own, which are properties of types.
  return train(causeway::stage::recovery::redundant_forward{stages_wanted(in.s)}, one_f_one_b{}, sum);
}

}  // namespace app
