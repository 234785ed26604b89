// SPDX-License-Identifier: Apache-2.0
#include "run_policy.hpp"

#include <causeway/parallel/data_parallel.hpp>

#include <utility>

#include "compose.hpp"
#include "elastic_trainer.hpp"
#include "run_trainer.hpp"

namespace app {
namespace {

using causeway::comm_traits;

causeway::result<session_summary> train_fixed(chosen_model model, training t, chosen_policy comm, pace moves) {
  const auto& train = t.in.s.train;
  causeway::parallel::data_parallel parallel{{.micro_batches = train.micro_batches, .added_apart = train.added_apart}};
  chosen_inner inner = inner_of(t.in.s);
  return run_trainer(std::move(model), std::move(t), std::move(comm), std::move(inner), std::move(parallel), moves);
}

}  // namespace

causeway::result<session_summary> run_policy(chosen_model model, training t, chosen_policy comm, pace moves,
                                             std::uint64_t fragments) {
  if (is_swarm(t.in.s)) return train_swarm(std::move(model), std::move(t), std::move(comm));
  if (is_elastic_pipeline(t.in.s)) {
    return train_elastic_pipeline(std::move(model), std::move(t), std::move(comm), fragments);
  }
  if (is_pipeline(t.in.s)) return train_pipeline(std::move(model), std::move(t), std::move(comm));
  if (t.place == nullptr) return train_fixed(std::move(model), std::move(t), std::move(comm), moves);
  const auto train = [&](auto chosen) {
    return train_elastic(std::move(model), std::move(t), std::move(chosen), fragments);
  };
  constexpr causeway::peers elastic = causeway::peers::elastic;
  const comm_traits& traits = comm.traits();
  if (traits.tolerates != elastic) {
    return causeway::fail(causeway::errc::unsupported, "comm.policy", t.in.s.comm.policy + " needs a fixed set of peers");
  }
  if (traits.exchanges_gradients) {
    return train(chosen_comm<comm_traits{.tolerates = elastic, .exchanges_gradients = true}>{std::move(comm)});
  }
  if (traits.own_parameters) {
    return train(chosen_comm<comm_traits{.tolerates = elastic, .own_parameters = true}>{std::move(comm)});
  }
  return train(chosen_comm<comm_traits{.tolerates = elastic}>{std::move(comm)});
}

}  // namespace app
