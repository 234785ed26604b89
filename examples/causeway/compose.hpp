// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_COMPOSE_HPP
#define CAUSEWAY_EXAMPLES_COMPOSE_HPP

// From settings to policies. What is chosen at run time becomes a type here: `f` is instantiated for every choice, and
// called with one.

#include <causeway/comm/every_step.hpp>
#include <causeway/comm/periodic.hpp>
#include <causeway/optim/nesterov.hpp>
#include <causeway/optim/schedule.hpp>
#include <causeway/train/context.hpp>

#include <utility>

#include "chosen_codec.hpp"
#include "chosen_inner.hpp"
#include "session_input.hpp"
#include "settings.hpp"

namespace app {

inline causeway::trainer_options trainer_options_of(const settings& s) {
  causeway::trainer_options options;
  options.seed = s.run.seed;
  options.clip_norm = s.train.clip;
  options.learning_rate = causeway::optim::warmup_cosine{s.train.learning_rate, optimizer_steps(s, s.train.warmup),
                                                         optimizer_steps(s, s.train.steps), s.train.final_fraction};
  return options;
}

inline chosen_inner inner_of(const settings& s) {
  const causeway::optim::snoo_options outer{.local_steps = s.comm.local_steps,
                                            .outer_learning_rate = s.comm.outer_learning_rate,
                                            .outer_momentum = s.comm.outer_momentum};
  return chosen_inner{s.train.optimizer, s.train.weight_decay, outer};
}

/// Local SGD is outer SGD(1): Nesterov without momentum.
inline bool averages(const settings& s) { return s.comm.policy == "local_sgd"; }
inline float outer_rate(const settings& s) { return averages(s) ? 1.0F : s.comm.outer_learning_rate; }
inline causeway::optim::nesterov outer_of(const settings& s) {
  return causeway::optim::nesterov{{.momentum = averages(s) ? 0.0F : s.comm.outer_momentum}};
}

/// Calls `f(communication policy)`.
template <class F>
auto with_comm(const settings& s, F&& f) {
  namespace comm = causeway::comm;
  using causeway::optim::nesterov;
  const bool plain = s.comm.codec == "none";
  if (s.comm.policy == "every_step") {
    if (plain) return f(comm::every_step<>{});
    return f(comm::every_step<chosen_codec>{chosen_codec{s.comm.codec}});
  }
  const comm::periodic_options periodic{.local_steps = s.comm.local_steps, .outer_learning_rate = outer_rate(s)};
  if (plain) return f(comm::periodic<nesterov>{periodic, outer_of(s)});
  return f(comm::periodic<nesterov, chosen_codec>{periodic, outer_of(s), chosen_codec{s.comm.codec}});
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_COMPOSE_HPP
