// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_RUN_POLICY_HPP
#define CAUSEWAY_EXAMPLES_RUN_POLICY_HPP

// A run in which every peer holds the model. Included by the files of policies alone: it instantiates much.

#include <causeway/fault/quorum.hpp>
#include <causeway/parallel/data_parallel.hpp>
#include <causeway/train/trainer.hpp>

#include <cstdint>
#include <utility>

#include "chosen_model.hpp"
#include "compose.hpp"
#include "elastic_session.hpp"
#include "paced_data_parallel.hpp"
#include "run_trainer.hpp"
#include "training.hpp"

namespace app {

template <class Comm>
causeway::result<session_summary> run_fixed(chosen_model model, training t, Comm comm, pace moves) {
  const settings& s = t.in.s;
  causeway::parallel::data_parallel parallel{{.micro_batches = s.train.micro_batches}};
  return run_trainer(causeway::make_trainer(std::move(model), std::move(t.env), trainer_options_of(s), inner_of(s),
                                            std::move(comm), std::move(parallel)),
                     t.in, moves);
}

template <class Comm>
causeway::result<session_summary> run_elastic(chosen_model model, training t, Comm comm, std::uint64_t fragments) {
  const settings& s = t.in.s;
  paced_data_parallel parallel{s.train.micro_batches, t.place->computed};
  auto trainer = causeway::make_trainer(std::move(model), std::move(t.env), trainer_options_of(s), inner_of(s),
                                        std::move(comm), std::move(parallel), causeway::fault::quorum{});
  return run_session(trainer, t.in, *t.place, fragments);
}

/// `moves`: what a fixed set of peers have in common. `fragments`: into how many the policy cuts the model.
template <class Comm>
causeway::result<session_summary> run_policy(chosen_model model, training t, Comm comm, pace moves,
                                             std::uint64_t fragments = 1) {
  if (t.place == nullptr) return run_fixed(std::move(model), std::move(t), std::move(comm), moves);
  if constexpr (Comm::traits.tolerates == causeway::peers::elastic) {
    return run_elastic(std::move(model), std::move(t), std::move(comm), fragments);
  } else {
    return causeway::fail(causeway::errc::unsupported, "comm.policy", t.in.s.comm.policy + " needs a fixed set of peers");
  }
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_RUN_POLICY_HPP
