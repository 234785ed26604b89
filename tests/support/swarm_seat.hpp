// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_SWARM_SEAT_HPP
#define CAUSEWAY_TESTS_SUPPORT_SWARM_SEAT_HPP

// What a peer of a swarm does on whatever network carries it, and what the unsplit model comes to over the same batches.
// A job is a model that can be cut, and its global batches.

#include <causeway/comm/every_step.hpp>
#include <causeway/fault/quorum.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/parallel/swarm.hpp>
#include <causeway/parallel/swarm/swarm_peer.hpp>
#include <causeway/stage/activation.hpp>
#include <causeway/stage/routing_by_chance.hpp>
#include <causeway/train/member.hpp>
#include <causeway/train/swarm_executors.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/counted_fabric.hpp"
#include "support/timed_stages.hpp"

namespace support {

/// Inputs are the targets too.
struct swarm_batch {
  std::vector<std::int32_t> tokens;
  std::int64_t sequences = 0;
  [[nodiscard]] causeway::batch view() const { return {tokens, tokens, sequences}; }
};

using named_parameters = std::map<std::string, std::vector<float>>;

inline named_parameters parameters_of(causeway::parameter_store& store) {
  named_parameters all;
  for (std::size_t i = 0; i < store.segments().size(); ++i) {
    const auto& s = store.segments()[i];
    all[s.name].assign(store.value(i), store.value(i) + s.size());
  }
  return all;
}

/// How many steps, of how much, and how they move the parameters.
struct swarm_schedule {
  std::uint64_t steps = 3;
  std::int64_t micro_batches = 8;
  std::uint64_t seed = 1;
  float rate = 0.01F;
  float clip_norm = 0;
  std::uint32_t local_steps = 0;  ///< for parallel::local_swarm, with what follows
  float outer_rate = 1;
  float momentum = 0;
};

/// Sequences of 4 tokens, one a micro-batch, through blocks that take time.
struct timed_job {
  using model_type = timed_stages;
  std::int64_t blocks = 2;
  [[nodiscard]] model_type make(causeway::nn::model_part part, const block_seconds& time = {}) const {
    return timed_stages{blocks, 4, std::move(part), time};
  }
  [[nodiscard]] swarm_batch batch(const swarm_schedule& s, std::uint64_t step) const {
    swarm_batch b{std::vector<std::int32_t>(static_cast<std::size_t>(s.micro_batches * 4)), s.micro_batches};
    for (std::size_t i = 0; i < b.tokens.size(); ++i) {
      b.tokens[i] = static_cast<std::int32_t>(causeway::mix(s.seed, step, i) % 16);
    }
    return b;
  }
};

/// What the parameters must be at the end, and the loss of every step.
struct swarm_reference {
  named_parameters parameters;
  std::vector<double> losses;
  std::vector<double> evaluated;  ///< before every step: the mean loss over `evaluation_step`'s batch
};

/// The step whose batch is evaluated before `step`.
constexpr std::uint64_t evaluation_step(std::uint64_t step) { return 1000 + step; }

/// The whole model, micro-batch by micro-batch. `but`: one of the first step that is left out.
template <class Job, class Inner = causeway::optim::sgd>
swarm_reference unsplit(const Job& job, const swarm_schedule& s, std::size_t but = SIZE_MAX, Inner inner = Inner{}) {
  auto model = job.make(causeway::nn::model_part{});
  swarm_reference r;
  causeway::thread_pool pool{1};
  inner.reset(model.parameters().length());
  for (std::uint64_t step = 0; step < s.steps; ++step) {
    const swarm_batch b = job.batch(s, step);
    const causeway::batch whole = b.view();
    const std::int64_t per = whole.sequences / s.micro_batches;
    const swarm_batch other = job.batch(s, evaluation_step(step));
    const double sum = model.evaluate(other.tokens, other.tokens, other.sequences).value();
    r.evaluated.push_back(sum / static_cast<double>(other.tokens.size()));
    auto g = model.parameters().gradients();
    std::fill(g.begin(), g.end(), 0.0F);
    double loss = 0;
    for (std::int64_t m = 0; m < s.micro_batches; ++m) {
      if (step == 0 && static_cast<std::size_t>(m) == but) continue;
      const causeway::batch piece = whole.slice(m * per, per);
      const float scale = 1.0F / static_cast<float>(whole.tokens());
      loss += model.forward_backward(piece.inputs, piece.targets, per, scale, 0).value();
    }
    r.losses.push_back(loss / static_cast<double>(whole.tokens()));
    double squares = 0;
    for (const float v : g) squares += double(v) * double(v);
    const auto norm = static_cast<float>(std::sqrt(squares));
    if (s.clip_norm > 0 && norm > s.clip_norm) {
      for (float& v : g) v *= s.clip_norm / norm;
    }
    inner.step(pool, model.parameters().view(), {.learning_rate = s.rate});
    model.parameters().touch();
  }
  r.parameters = parameters_of(model.parameters());
  return r;
}

/// The largest difference of a peer's parameters from those; infinite if there is none to compare.
inline double distance(const named_parameters& held, const swarm_reference& want) {
  double worst = held.empty() ? HUGE_VAL : 0;
  for (const auto& [name, values] : held) {
    const auto& other = want.parameters.at(name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      worst = std::max(worst, std::abs(double(values[i]) - double(other.at(i))));
    }
  }
  return worst;
}

/// What a peer is made of.
struct swarm_seat {
  std::shared_ptr<causeway::net::fabric> mates, swarm;  ///< of the membership of its stage, and of the swarm
  causeway::io::any_storage disk;
  causeway::member_options member{};
  causeway::parallel::swarm_options options{};
  causeway::any_clock clock{};
  causeway::log_sink log{};
  /// Called with the peer before it trains.
  std::function<void(causeway::parallel::swarm_peer&)> made{};
};

/// Trains on that seat: `make(round, environment, options, fault policy)` gives the trainer, `body(trainer, peer)` takes
/// the steps.
template <class Router, class Make, class Body>
causeway::result<void> take_seat_with(swarm_seat seat, Router router, const swarm_schedule& s, Make&& make, Body&& body) {
  using namespace causeway;
  const auto peer = std::make_shared<parallel::swarm_peer>(seat.swarm, seat.options, std::move(router), seat.log);
  if (seat.made) seat.made(*peer);
  seat.member.enters_afresh = true;
  seat.member.called_away = [peer] { return peer->called_away(); };
  CAUSEWAY_ASSIGN(const auto stage, member::make(seat.mates, seat.disk, seat.member, seat.log));
  environment env;
  env.clock = seat.clock;
  env.log = seat.log;
  env.group = stage;
  trainer_options to;
  to.learning_rate = optim::constant{s.rate};
  to.clip_norm = s.clip_norm;
  const fault::quorum fault{fault::no_recovery{}, {.storage = seat.disk, .folder = seat.member.folder}};
  auto trainer = make(peer, std::move(env), to, fault);
  CAUSEWAY_TRY(trainer.start());
  return body(trainer, *peer);
}

/// With gradients summed in every step.
template <class Codec = causeway::stage::plain, class Router, class Model, class Body>
causeway::result<void> take_seat(swarm_seat seat, Router router, Model model, const swarm_schedule& s, Body&& body) {
  using namespace causeway;
  const auto make = [&](std::shared_ptr<parallel::swarm_peer> peer, environment env, const trainer_options& to,
                        const auto& fault) {
    return make_trainer(std::move(model), std::move(env), to, comm::every_step<>{}, optim::sgd{}, fault,
                        parallel::swarm<Codec>{std::move(peer)});
  };
  return take_seat_with(std::move(seat), std::move(router), s, make, std::forward<Body>(body));
}

struct summed_steps {
  template <class Codec, class Router, class Model, class Body>
  static causeway::result<void> take(swarm_seat seat, Router router, Model model, const swarm_schedule& s, Body&& body) {
    return take_seat<Codec>(std::move(seat), std::move(router), std::move(model), s, std::forward<Body>(body));
  }
};

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_SWARM_SEAT_HPP
