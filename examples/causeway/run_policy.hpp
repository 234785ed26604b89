// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_RUN_POLICY_HPP
#define CAUSEWAY_EXAMPLES_RUN_POLICY_HPP

// A run with any communication policy, whatever peers hold of the model.

#include <causeway/core/result.hpp>

#include <cstdint>

#include "chosen_policy.hpp"
#include "session_input.hpp"
#include "training.hpp"

namespace app {

/// `moves`: what a fixed set of peers that hold the whole model have in common. `fragments`: into how many the policy cuts
/// the model. errc::unsupported where peers come and go, or hold stages, and the policy does not go with that.
causeway::result<session_summary> run_policy(chosen_model model, training t, chosen_policy comm, pace moves,
                                             std::uint64_t fragments = 1);

/// Of those: where a fixed set of peers hold stages.
causeway::result<session_summary> train_pipeline(chosen_model model, training t, chosen_policy comm);
/// The same where they come and go, and gradients are summed in every step, or replicas take steps of their own.
causeway::result<session_summary> train_elastic_pipeline(chosen_model model, training t, chosen_policy comm,
                                                         std::uint64_t fragments);
/// The same where every micro-batch takes its own way through the peers of the stages.
causeway::result<session_summary> train_swarm(chosen_model model, training t, chosen_policy comm);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_RUN_POLICY_HPP
