// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/every_step.hpp>
#include <causeway/fault/quorum.hpp>
#include <causeway/parallel/async_pipeline.hpp>
#include <causeway/parallel/pipeline.hpp>
#include <causeway/stage/recovery_swapped.hpp>
#include <causeway/stage/schedules.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "chosen_pipeline.hpp"
#include "chosen_recovery.hpp"
#include "pipeline_recoveries.hpp"
#include "policies.hpp"
#include "run_policy.hpp"
#include "train_stages.hpp"

namespace app {

namespace {

constexpr causeway::comm_traits by_blocks{
    .tolerates = causeway::peers::elastic, .exchanges_gradients = true, .moves_with_blocks = true};
constexpr causeway::comm_traits of_local_steps{.tolerates = causeway::peers::elastic,
                                               .allows_late_steps = true,
                                               .moves_with_blocks = true,
                                               .rows_in_parts = true};  // else no table is tied: shares_no_table

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
  const settings& s = t.in.s;
  const auto& p = s.parallel;
  const causeway::fault::quorum_options saved{.storage = t.place->storage,
                                              .folder = block_folder(s),
                                              .store_every = store_every(s, comm, fragments),
                                              .steps = s.train.steps};
  if (cuts_apart(s)) return train_stages_apart(std::move(model), std::move(t), std::move(comm), saved);
  const auto train = [&](auto exchange, auto stages, auto recovery) {
    return train_stages(std::move(model), std::move(t), saved, std::move(exchange), std::move(stages), std::move(recovery));
  };
  const auto train_pipeline = [&](auto exchange, auto layouts) {
    if (!joins_ends(s)) {
      return train(std::move(exchange), stages_in_order(s, model, chosen_schedule{p.schedule}), std::move(layouts));
    }
    return train(std::move(exchange), stages_in_order(s, model, causeway::stage::one_f_one_b{}),  // an order of its own
                 causeway::stage::recovery::swapped_neighbours{neighbours_of(s)});
  };
  if (is_async_pipeline(s)) {
    const causeway::parallel::pipeline_options cut{.micro_batches = s.train.micro_batches};
    const causeway::parallel::async_pipeline_options late{.cut = cut, .stashing = p.stashing, .ahead = p.ahead};
    auto stages = causeway::parallel::async_pipeline{late, forgetful_of(s, model.width())};
    return train(chosen_comm<of_local_steps>{std::move(comm)}, std::move(stages), chosen_alike{s});
  }
  if (steps_alone(s)) return train_pipeline(chosen_comm<of_local_steps>{std::move(comm)}, chosen_alike{s});
  if (exchanges_gradients(s)) return train_pipeline(chosen_comm<by_blocks>{std::move(comm)}, chosen_for_gradients{s});
  return train_pipeline(causeway::comm::every_step<>{}, chosen_for_gradients{s});
}

}  // namespace app
