// SPDX-License-Identifier: Apache-2.0
// Swarms whose gradients are exchanged by a communication policy, with its codec and what it keeps, among the peers of a
// stage.
#include <causeway/parallel/swarm.hpp>

#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/fp16.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/parallel/data_parallel.hpp>
#include <causeway/parallel/pipeline.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/gossip.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "parallel/swarm/local_swarm_cases.hpp"
#include "support/catch.hpp"
#include "support/cluster.hpp"
#include "support/local_seat.hpp"
#include "support/swarm_gpt.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using support::named_parameters;
using support::swarm_world_options;

namespace {

/// Policies by what makes them, and whether they keep something of a peer's own.
struct exact_steps {
  static constexpr bool keeps = false;
  static constexpr double learned = 0.9;  ///< at least, of what a run without losses learns
};
struct steps_with_residual : exact_steps {
  static constexpr bool keeps = true;
};
struct dense : exact_steps {
  static auto make() { return comm::rounds{axis::every{1}, axis::gradient{}, axis::all_reduce<>{}}; }
};
struct half_precision : exact_steps {
  static auto make() { return comm::every_step<compress::fp16>{}; }
};
struct eight_bits : exact_steps {
  static auto make() { return comm::every_step<compress::block_int8>{}; }
};
struct eight_bits_with_feedback : steps_with_residual {
  static auto make() {
    return comm::rounds{axis::every{1}, axis::gradient{}, axis::error_feedback{}, axis::all_reduce<compress::block_int8>{}};
  }
};
struct largest_with_feedback : steps_with_residual {
  using codec = compress::sparse<compress::no_transform, compress::top_k, compress::none>;
  static auto make() {
    return comm::rounds{axis::every{1}, axis::gradient{}, axis::error_feedback{},
                        axis::gather_mean<codec>{codec{compress::no_transform{}, compress::top_k{{.k = 64}}}}};
  }
};
struct low_rank : steps_with_residual {
  static auto make() { return presets::make(presets::power_sgd_options{}); }
};
/// A third of the momentum goes with a lost peer, of ten or more steps.
struct steps_of_momentum : steps_with_residual {
  static constexpr double learned = 0.6;
};
struct demo : steps_of_momentum {
  static auto make() { return presets::make(presets::demo_options{}); }
};
/// Of a rank that small gradients have: what is orthonormal to them is made of rounding.
struct dion : steps_of_momentum {
  static auto make() { return presets::make(presets::dion_options{.rank = 2}); }
};
struct late_with_feedback : largest_with_feedback {
  static auto make() {
    return comm::rounds{axis::every{1}, axis::gradient{}, axis::error_feedback{}, axis::one_round_late{},
                        axis::gather_mean<codec>{codec{compress::no_transform{}, compress::top_k{{.k = 64}}}}};
  }
};
/// A step late, too. What a peer sends depends on how many there are.
struct stella : steps_with_residual {
  static auto make() { return presets::make(presets::stella_train_options{.share = 0.5}); }
};
/// Four rows.
struct trees : exact_steps {
  static auto make() { return presets::make(presets::netstorm_options{}); }
};

/// For swarm_world.
template <class Policy, class Inner = optim::sgd>
struct gradient_steps {
  static inline support::step_checkpoints* checkpoints = nullptr;

  template <class Codec, class Router, class Model, class Body>
  static result<void> take(support::swarm_seat seat, Router router, Model model, const support::swarm_schedule& s,
                           Body&& body) {
    const std::uint64_t id = seat.swarm->id();
    const auto make = [&](std::shared_ptr<parallel::swarm_round> round, environment env, const trainer_options& to) {
      auto trainer = make_trainer(std::move(model), std::move(env), to, Policy::make(), Inner{}, fault::quorum{},
                                  parallel::swarm<Codec>{std::move(round)});
      if (checkpoints != nullptr && checkpoints->by_peer.contains(id)) support::load(trainer, checkpoints->by_peer[id]);
      return trainer;
    };
    const auto watched = [&](auto& trainer, auto& peer) {
      trainer.observe([&trainer, id](const step_report& r) {
        if (checkpoints != nullptr && r.step == checkpoints->after) checkpoints->by_peer[id] = support::save(trainer);
      });
      return body(trainer, peer);
    };
    return support::take_seat_with(std::move(seat), std::move(router), s, make, watched);
  }
};
template <class Policy, class Router = stage::routing::least_load, class Job = support::gpt_job>
using gradient_swarm = support::swarm_world<Router, Job, stage::plain, gradient_steps<Policy>>;
template <class Policy>
using in_pairs = gradient_swarm<Policy, support::in_pairs<>>;
template <class Policy>
using learning_swarm =
    support::swarm_world<stage::routing::least_load, support::gpt_job, stage::plain, gradient_steps<Policy, optim::adamw>>;

/// Two micro-batches for each of two peers in each of two stages.
swarm_world_options two_pairs() {
  return {.speeds = {{1, 1}, {1, 1}}, .steps = 6, .micro_batches = 4, .blocks_per_stage = 1, .rate = 0.2F};
}
swarm_world_options of_three() {
  auto o = two_pairs();
  o.speeds = {{1, 1, 1}, {1, 1, 1}};
  return o;
}

swarm_world_options to_learn() {
  auto o = of_three();
  o.steps = 16, o.rate = 0.02F;
  return o;
}

named_parameters beginning() {
  auto model = support::gpt_job{2}.make(nn::model_part{});
  return support::parameters_of(model.parameters());
}

/// All have finished, and those of a stage alike: the parameters of both stages.
template <class World>
named_parameters made_by(World& swarm, std::uint32_t except = support::nobody) {
  const std::uint32_t each = swarm.hosts() / 2;
  named_parameters all;
  for (std::uint32_t h = 0; h < swarm.hosts(); ++h) {
    if (h == except) continue;
    INFO("host " << h << ": " << swarm.at(h).error);
    REQUIRE(swarm.at(h).finished);
    const std::uint32_t first = h / each * each == except ? except + 1 : h / each * each;
    CHECK(swarm.at(h).parameters == swarm.at(first).parameters);
    for (const auto& [name, values] : swarm.at(h).parameters) all[name] = values;
  }
  return all;
}

/// A run in which nobody is killed.
struct quiet_run {
  named_parameters parameters;
  std::vector<std::uint32_t> idle;  ///< by stage: the peer that computed least
};
template <class World>
quiet_run quietly(const swarm_world_options& o) {
  World swarm{o};
  swarm.boot();
  swarm.run(2min);
  quiet_run quiet{made_by(swarm), {}};
  for (std::uint32_t s = 0; s < 2; ++s) {
    std::uint32_t least = swarm.first(s);
    for (std::uint32_t h = swarm.first(s); h < swarm.first(s) + swarm.at_stage(s); ++h) {
      if (swarm.at(h).bytes < swarm.at(least).bytes) least = h;
    }
    quiet.idle.push_back(least);
  }
  return quiet;
}

/// Of the whole model with these, over a batch that nobody trains on.
double loss_of(const named_parameters& held) {
  const support::gpt_job job{2};
  auto model = job.make(nn::model_part{});
  auto& store = model.parameters();
  for (std::size_t i = 0; i < store.segments().size(); ++i) {
    const auto& values = held.at(store.segments()[i].name);
    std::copy(values.begin(), values.end(), store.value(i));
  }
  store.touch();
  const auto b = job.batch({.micro_batches = 8, .seed = 1}, support::evaluation_step(0));
  return model.evaluate(b.tokens, b.tokens, b.sequences).value() / static_cast<double>(b.tokens.size());
}

double learned(const named_parameters& held) { return loss_of(beginning()) - loss_of(held); }

/// How far a run is off another one, in parts of how far that went.
double off(const named_parameters& is, const named_parameters& was) { return support::off(is, was, beginning()); }

/// The micro-batches of a pair.
support::swarm_batch batch_of(std::uint32_t pair, const swarm_world_options& o, std::uint64_t step) {
  const auto b = support::gpt_job{2}.batch({.micro_batches = o.micro_batches, .seed = o.seed}, step);
  support::swarm_batch own{{}, 4};
  for (const std::uint32_t m : {pair, pair + 2}) {
    const auto piece = b.view().slice(2 * m, 2).inputs;
    own.tokens.insert(own.tokens.end(), piece.begin(), piece.end());
  }
  return own;
}

/// A fixed set of peers, with `part` of the model and that parallelism, takes the steps of pair `pair`.
template <class Policy, class Parallel>
named_parameters fixed_peer(const swarm_world_options& o, environment env, std::uint32_t pair, nn::model_part part,
                            Parallel parallel) {
  trainer_options to;
  to.learning_rate = optim::constant{o.rate};
  to.clip_norm = 0;
  auto t = make_trainer(support::gpt_job{2}.make(std::move(part)), std::move(env), to, Policy::make(), optim::sgd{},
                        std::move(parallel));
  if (!t.start()) throw std::runtime_error{"start"};  // Catch counts in one thread only
  for (std::uint64_t step = 0; step < o.steps; ++step) (void)t.step(batch_of(pair, o, step).view()).value();
  return support::parameters_of(t.model().parameters());
}

/// Two whole models, each on the micro-batches of a pair, whose gradients the policy averages.
template <class Policy>
named_parameters of_two_models(const swarm_world_options& o) {
  named_parameters all;
  support::run_cluster(2, [&](std::uint32_t p, environment env) {
    auto own = fixed_peer<Policy>(o, std::move(env), p, {}, parallel::data_parallel{{.micro_batches = 2}});
    if (p == 0) all = std::move(own);
  });
  return all;
}

/// The same with two pipelines of two stages.
template <class Policy>
named_parameters of_two_pipelines(const swarm_world_options& o) {
  named_parameters all;
  std::mutex mutex;
  const parallel::pipeline_options po{.micro_batches = 2, .ranks = 2};
  support::run_cluster(4, [&](std::uint32_t p, environment env) {
    const auto place = parallel::place_in(po, p, 4).value();
    auto part = parallel::part_of(po, place, 2).value();
    const auto own = fixed_peer<Policy>(o, std::move(env), place.replica, std::move(part), parallel::pipeline<>{po});
    const std::lock_guard lock{mutex};
    if (place.replica == 0) all.insert(own.begin(), own.end());
  });
  return all;
}

/// Calls `judge(parameters, killed for good)` for each run of `with` in which a host of `victims` is killed, at every
/// `every`th of its network calls from the first committed state on.
template <class World, class Judge>
void killed_all_along(const swarm_world_options& with, const std::vector<std::uint32_t>& victims, std::uint64_t every,
                      causeway::duration back, Judge&& judge) {
  for (const std::uint32_t victim : victims) {
    std::uint64_t runs = 0;
    for (std::uint64_t n = victim % every;; n += every, ++runs) {
      INFO("host " << victim << " is killed at its network call " << n);
      auto o = with;
      o.victim = victim, o.dies_at = n, o.back_after = back, o.once_committed = true;
      World swarm{o};
      if (back == 0s) swarm.wanted = swarm.hosts() - 1;
      swarm.boot();
      swarm.run(2min);
      if (swarm.at(victim).calls <= n) break;  // it has outlived the run
      judge(made_by(swarm, back == 0s ? victim : support::nobody));
    }
    CHECK(runs * every > 200);
  }
}

}  // namespace

TEMPLATE_TEST_CASE("swarm gradients: pairs of peers make the steps of two pipelines that average by the same policy",
                   "[parallel][fast]", dense, half_precision, eight_bits, eight_bits_with_feedback, largest_with_feedback,
                   low_rank, demo, dion, stella, trees) {
  const auto o = two_pairs();
  const auto made = quietly<in_pairs<TestType>>(o).parameters;
  CHECK(made == of_two_pipelines<TestType>(o));
  const double from_dense = off(made, quietly<in_pairs<dense>>(o).parameters);
  const bool exact = std::is_same_v<TestType, dense> || std::is_same_v<TestType, trees>;
  CHECK((exact ? from_dense < 1e-6 : from_dense > 1e-4));
}

TEMPLATE_TEST_CASE("swarm gradients: where rows are cut alike these are the steps of two whole models", "[parallel][fast]",
                   dense, half_precision, largest_with_feedback, demo, stella, trees) {
  const auto o = two_pairs();
  CHECK(quietly<in_pairs<TestType>>(o).parameters == of_two_models<TestType>(o));
}

TEMPLATE_TEST_CASE("swarm gradients: a peer that has no part in a step may be lost, and nothing of what others keep is",
                   "[parallel][fast]", eight_bits_with_feedback, largest_with_feedback, late_with_feedback, low_rank, demo,
                   dion) {
  const auto quiet = quietly<in_pairs<TestType>>(of_three());
  killed_all_along<in_pairs<TestType>>(of_three(), quiet.idle, 13, 0s,
                                       [&](const named_parameters& made) { CHECK(off(made, quiet.parameters) < 1e-5); });
}

TEMPLATE_TEST_CASE("swarm gradients: policies that round nothing make the same steps, whoever is killed",
                   "[parallel][fast]", dense, trees) {
  const auto o = of_three();
  const auto quiet = quietly<gradient_swarm<TestType>>(o).parameters;
  const auto as_quiet = [&](const named_parameters& made) { CHECK(off(made, quiet) < 1e-6); };
  killed_all_along<gradient_swarm<TestType>>(o, {1}, 37, 0s, as_quiet);
  killed_all_along<gradient_swarm<TestType>>(o, {5}, 37, 1s, as_quiet);
}

TEMPLATE_TEST_CASE("swarm gradients: what a lost peer kept is lost with it, and the run learns on", "[parallel][fast]",
                   eight_bits, largest_with_feedback, low_rank, demo, dion, stella) {
  const auto o = to_learn();
  const double quiet = learned(quietly<learning_swarm<TestType>>(o).parameters);
  CHECK(quiet > 0.1);
  const auto learns = [&](const named_parameters& made) { CHECK(learned(made) > TestType::learned * quiet); };
  killed_all_along<learning_swarm<TestType>>(o, {1}, 193, 0s, learns);
  killed_all_along<learning_swarm<TestType>>(o, {5}, 193, 1s, learns);
}

TEMPLATE_TEST_CASE("swarm gradients: all peers of a stage are killed, and take the step that the others have taken",
                   "[parallel][fast]", dense, low_rank, trees) {
  auto o = of_three();
  const auto quiet = quietly<gradient_swarm<TestType>>(o).parameters;
  o.die_with = {3, 4};
  killed_all_along<gradient_swarm<TestType>>(
      o, {5}, 37, 1s, [&](const named_parameters& made) { CHECK(off(made, quiet) < (TestType::keeps ? 0.7 : 1e-6)); });
}

TEMPLATE_TEST_CASE("swarm gradients: a peer may come in every step", "[parallel][fast]", dense, half_precision,
                   largest_with_feedback, low_rank, demo, dion, stella, trees) {
  auto o = to_learn();
  const double quiet = learned(quietly<learning_swarm<TestType>>(o).parameters);
  o.late = {5};
  for (std::size_t step = 1; step < 6; ++step) {
    INFO("it comes after step " << step);
    learning_swarm<TestType> swarm{o};
    swarm.boot();
    while (swarm.at(0).ends.size() < step)
      swarm.world().run_until(causeway::time_point{swarm.world().now().since_start + 10ms});
    swarm.boot(5);
    swarm.run(2min);
    CHECK(learned(made_by(swarm)) > TestType::learned * quiet);
    CHECK(swarm.at(5).ends.size() > 5);  // it has made steps itself
  }
}

TEMPLATE_TEST_CASE("swarm gradients: all peers are stopped, and go on from disks and checkpoints, but for residuals",
                   "[parallel][fast]", half_precision, eight_bits, largest_with_feedback, low_rank, demo, trees) {
  const auto o = of_three();
  const auto quiet = quietly<in_pairs<TestType>>(o).parameters;
  for (const std::uint64_t step : {2U, 4U}) {
    INFO("all are stopped after step " << step);
    support::step_checkpoints saved{.after = step, .by_peer = {}};
    gradient_steps<TestType>::checkpoints = &saved;
    in_pairs<TestType> swarm{o};
    swarm.boot();
    while (saved.by_peer.size() < 6) swarm.world().run_until(causeway::time_point{swarm.world().now().since_start + 1ms});
    for (std::uint32_t h = 0; h < 6; ++h) swarm.world().kill(h);
    for (std::uint32_t h = 0; h < 6; ++h) swarm.world().restart(h);
    swarm.run(2min);
    gradient_steps<TestType>::checkpoints = nullptr;
    const auto made = made_by(swarm);
    if (!TestType::keeps) CHECK(made == quiet);
  }
}

TEMPLATE_TEST_CASE("swarm gradients: a peer is lost at every single network call", "[parallel][slow][every_call]", dense,
                   largest_with_feedback, low_rank) {
  const auto o = of_three();
  const auto quiet = quietly<in_pairs<TestType>>(o);
  killed_all_along<in_pairs<TestType>>(o, {quiet.idle.back()}, 1, 0s,
                                       [&](const named_parameters& made) { CHECK(off(made, quiet.parameters) < 1e-5); });
  const std::uint32_t busy = quiet.idle.back() == 5 ? 4 : 5;
  killed_all_along<in_pairs<TestType>>(o, {busy}, 3, 1s, [&](const named_parameters& made) {
    if (!TestType::keeps) CHECK(off(made, quiet.parameters) < 1e-6);
  });
}

TEST_CASE("swarm gradients: both ends refuse a policy that rounds where they share a table", "[parallel][fast]") {
  gradient_swarm<half_precision, stage::routing::least_load, support::tied_gpt_job> swarm{two_pairs()};
  swarm.boot();
  swarm.run(5s);
  for (std::uint32_t h = 0; h < swarm.hosts(); ++h) {
    CHECK(swarm.at(h).error.find("unsupported") != std::string::npos);
    CHECK(swarm.at(h).error.find("untied embeddings") != std::string::npos);
  }
}
