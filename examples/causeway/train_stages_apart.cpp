// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/every_step.hpp>
#include <causeway/stage/recovery_redundant_forward.hpp>
#include <causeway/stage/schedules.hpp>

#include <utility>

#include "chosen_recovery.hpp"
#include "chosen_schedule.hpp"
#include "train_stages.hpp"

namespace app {

namespace {

using causeway::comm_traits;
using causeway::stage::recovery::redundant_forward;
constexpr causeway::peers elastic = causeway::peers::elastic;
constexpr comm_traits rows_of_gradients{
    .tolerates = elastic, .exchanges_gradients = true, .moves_with_blocks = true, .rows_in_parts = true};
constexpr comm_traits rows_taken_ahead{.tolerates = elastic,
                                       .exchanges_gradients = true,
                                       .moves_with_blocks = true,
                                       .rows_in_parts = true,
                                       .looks_ahead = true};
constexpr comm_traits rows_of_local_steps{
    .tolerates = elastic, .allows_late_steps = true, .moves_with_blocks = true, .rows_in_parts = true};

}  // namespace

causeway::result<session_summary> train_stages_apart(chosen_model model, training t, chosen_policy comm,
                                                     causeway::fault::quorum_options saved) {
  const settings& s = t.in.s;
  const auto with_forwards = [&](auto exchange) {
    auto stages = stages_in_order(s, model, causeway::stage::one_f_one_b{});
    return train_stages(std::move(model), std::move(t), std::move(saved), std::move(exchange), std::move(stages),
                        redundant_forward{stages_wanted(s)});
  };
  const auto apart = [&](auto exchange) {
    auto stages = stages_in_order(s, model, chosen_schedule{s.parallel.schedule});
    return train_stages(std::move(model), std::move(t), std::move(saved), std::move(exchange), std::move(stages),
                        chosen_apart{s});
  };
  const bool repeats_forwards = s.parallel.recovery == redundant_forward::name;
  const auto train = [&](auto exchange) {
    return repeats_forwards ? with_forwards(std::move(exchange)) : apart(std::move(exchange));
  };
  if (steps_alone(s)) return train(chosen_comm<rows_of_local_steps>{std::move(comm)});
  if (!exchanges_gradients(s)) return train(causeway::comm::every_step<>{});
  if (repeats_forwards) return with_forwards(chosen_comm<rows_of_gradients>{std::move(comm)});
  return apart(chosen_comm<rows_taken_ahead>{std::move(comm)});
}

}  // namespace app
