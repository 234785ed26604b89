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
constexpr causeway::peers elastic = causeway::peers::elastic;
constexpr comm_traits rows_of_gradients{
    .tolerates = elastic, .exchanges_gradients = true, .moves_with_blocks = true, .rows_in_parts = true};
constexpr comm_traits rows_of_local_steps{
    .tolerates = elastic, .allows_late_steps = true, .moves_with_blocks = true, .rows_in_parts = true};

}  // namespace

causeway::result<session_summary> train_stages_apart(chosen_model model, training t, chosen_policy comm,
                                                     causeway::fault::quorum_options saved) {
  const settings& s = t.in.s;
  const auto train = [&](auto exchange) {
    using causeway::stage::one_f_one_b;
    using causeway::stage::recovery::redundant_forward;
    if (s.parallel.recovery == redundant_forward::name) {
      auto stages = stages_in_order(s, model, one_f_one_b{});
      return train_stages(std::move(model), std::move(t), std::move(saved), std::move(exchange), std::move(stages),
                          redundant_forward{stages_wanted(s)});
    }
    auto stages = stages_in_order(s, model, chosen_schedule{s.parallel.schedule});
    return train_stages(std::move(model), std::move(t), std::move(saved), std::move(exchange), std::move(stages),
                        chosen_apart{s});
  };
  if (steps_alone(s)) return train(chosen_comm<rows_of_local_steps>{std::move(comm)});
  if (exchanges_gradients(s)) return train(chosen_comm<rows_of_gradients>{std::move(comm)});
  return train(causeway::comm::every_step<>{});
}

}  // namespace app
