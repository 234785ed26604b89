// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/every_step.hpp>
#include <causeway/fault/quorum.hpp>
#include <causeway/io/file.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/parallel/async_pipeline.hpp>
#include <causeway/parallel/pipeline.hpp>
#include <causeway/stage/recovery_redundant_forward.hpp>
#include <causeway/stage/recovery_swapped.hpp>
#include <causeway/stage/schedules.hpp>
#include <causeway/train/pipeline_executors.hpp>
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

constexpr causeway::comm_traits by_blocks{
    .tolerates = causeway::peers::elastic, .exchanges_gradients = true, .moves_with_blocks = true};
constexpr causeway::comm_traits of_local_steps{
    .tolerates = causeway::peers::elastic, .allows_late_steps = true, .moves_with_blocks = true};

/// Steps between two copies of blocks, or rounds where replicas take steps of their own: of each of the fragments then,
/// which have their turns within a round that the pipeline counts.
std::uint64_t store_every(const settings& s, const chosen_policy& comm, std::uint64_t fragments) {
  if (!steps_alone(s) || s.train.checkpoint_every == 0) return s.train.checkpoint_every;
  const bool by_steps =
      comm.traits().rounds_by_steps || comm.traits().divides_batches;  // else a record is of several rounds
  return by_steps ? std::max<std::uint64_t>(1, s.train.checkpoint_every * fragments / steps_of_round(s)) : 1;
}

}  // namespace

causeway::result<session_summary> train_elastic_pipeline(chosen_model model, training t, chosen_policy comm,
                                                         std::uint64_t fragments) {
  session_input& in = t.in;
  elastic_place& place = *t.place;
  const settings& s = in.s;
  const auto& p = s.parallel;
  const causeway::fault::quorum_options saved{.storage = place.storage,
                                              .folder = block_folder(s),
                                              .store_every = store_every(s, comm, fragments),
                                              .steps = s.train.steps};
  const std::int64_t width = model.width();
  CAUSEWAY_ASSIGN(chosen_inner inner, inner_of_stages(s, model));
  const auto train = [&](auto exchange, auto pipeline, auto recovery) {
    auto trainer = causeway::make_trainer(std::move(model), std::move(t.env), trainer_options_of(s), std::move(inner),
                                          std::move(exchange), std::move(pipeline),
                                          causeway::fault::quorum{std::move(recovery), saved});
    handle_of handle{trainer};
    return run_session(handle, in, place);
  };
  namespace recovery = causeway::stage::recovery;
  const causeway::parallel::pipeline_options cut{.micro_batches = s.train.micro_batches};
  const auto in_order = [&](auto schedule) {
    return causeway::parallel::pipeline{cut, std::move(schedule), forgetful_of(s, width)};
  };
  // Recoveries that have an order of their own are those by their types.
  using causeway::stage::one_f_one_b;
  const auto train_pipeline = [&](auto exchange, auto layouts) {
    if (!joins_ends(s)) return train(std::move(exchange), in_order(chosen_schedule{p.schedule}), std::move(layouts));
    return train(std::move(exchange), in_order(one_f_one_b{}), recovery::swapped_neighbours{neighbours_of(s)});
  };
  if (is_async_pipeline(s)) {
    const causeway::parallel::async_pipeline_options late{.cut = cut, .stashing = p.stashing, .ahead = p.ahead};
    return train(chosen_comm<of_local_steps>{std::move(comm)},
                 causeway::parallel::async_pipeline{late, forgetful_of(s, width)}, chosen_alike{s});
  }
  if (steps_alone(s)) return train_pipeline(chosen_comm<of_local_steps>{std::move(comm)}, chosen_alike{s});
  if (exchanges_gradients(s)) return train_pipeline(chosen_comm<by_blocks>{std::move(comm)}, chosen_for_gradients{s});
  const causeway::comm::every_step<> sum;
  if (p.recovery != "redundant_forward") return train_pipeline(sum, chosen_recovery{s});
  return train(sum, in_order(one_f_one_b{}), recovery::redundant_forward{stages_wanted(s)});
}

}  // namespace app
