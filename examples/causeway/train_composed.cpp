// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/rounds.hpp>

#include <type_traits>
#include <utility>

#include "compose.hpp"
#include "elastic_trainer.hpp"
#include "policies.hpp"
#include "run_policy.hpp"

namespace app {

namespace {

/// As with_comm, whose state can move with blocks.
chosen_policy rounds_of(const settings& s) {
  namespace axis = causeway::axis;
  using causeway::comm::rounds;
  const axis::every every{s.comm.local_steps};
  const axis::outer<causeway::optim::nesterov> outer{outer_rate(s), outer_of(s)};
  if (s.comm.codec == "none") return chosen_policy{rounds{every, outer}};
  return chosen_policy{rounds{every, outer, axis::all_reduce<chosen_codec>{chosen_codec{s.comm.codec}}}};
}

}  // namespace

causeway::comm_traits traits_of(const settings& s) {
  const policy& p = *find_policy(s.comm.policy);
  if (!p.composed) return p.traits;
  if (is_elastic_pipeline(s) && steps_alone(s)) return rounds_of(s).traits();
  return with_comm(s, [](const auto& comm) { return std::remove_cvref_t<decltype(comm)>::traits; });
}

causeway::result<session_summary> train_composed(chosen_model model, training t) {
  if (is_elastic_pipeline(t.in.s) && steps_alone(t.in.s)) {
    return run_policy(std::move(model), std::move(t), rounds_of(t.in.s), pace::together);
  }
  return with_comm(t.in.s, [&](auto comm) {
    if (t.place != nullptr && !has_stages(t.in.s)) return train_elastic(std::move(model), std::move(t), std::move(comm));
    return run_policy(std::move(model), std::move(t), chosen_policy{std::move(comm)}, pace::together);
  });
}

}  // namespace app
