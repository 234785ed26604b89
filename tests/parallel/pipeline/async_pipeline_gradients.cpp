// SPDX-License-Identifier: Apache-2.0
// Two asynchronous pipelines whose stages exchange the gradient of every update, by each policy that does: what they learn,
// and what becomes of them when a peer is lost.
#include <causeway/parallel/async_pipeline.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/compress/fp16.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/dion.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/parallel/pipeline.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/gossip.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/conformance.hpp"
#include "support/models.hpp"
#include "support/other_networks.hpp"

namespace causeway::parallel {
namespace {

constexpr std::uint32_t stages = 3, replicas = 2, all_peers = stages * replicas;
constexpr std::int64_t layers = 3, length = 8, vocabulary = 16, sequences = 4;

/// A policy and the optimizer that goes with it.
struct plain {
  static constexpr float rate = 0.01F;
  static auto comm() { return comm::every_step<>{}; }
  static auto inner() { return optim::adamw{}; }
};
struct half_precision : plain {
  static auto comm() { return comm::every_step<compress::fp16>{}; }
};
template <class Options>
struct preset : plain {
  static auto comm() { return presets::make(Options{}); }
};
template <class Options>
struct signs : preset<Options> {
  static constexpr float rate = 0.003F;
  static auto inner() { return optim::sgd{}; }
};
using low_rank = preset<presets::power_sgd_options>;
using trees = preset<presets::netstorm_options>;
using demo = signs<presets::demo_options>;
using distro = signs<presets::distro_options>;
struct dion : plain {
  static auto comm() { return presets::make(presets::dion_options{.rank = 2}); }
  static auto inner() { return optim::dion{optim::dion_options{.given = true}}; }
};

// Of five tokens four follow from the one before, the fifth from nothing: the best loss is 0.99.
struct tokens {
  tokens(std::uint64_t replica, std::uint64_t step) {
    rng luck{7, mix(replica, step)};
    for (std::int64_t s = 0; s < sequences; ++s) {
      std::uint64_t t = luck.below(vocabulary);
      for (std::int64_t i = 0; i < length; ++i) {
        inputs.push_back(static_cast<std::int32_t>(t));
        t = luck.uniform() < 0.2 ? luck.below(vocabulary) : (t * 5 + 3) % vocabulary;
        targets.push_back(static_cast<std::int32_t>(t));
      }
    }
  }
  [[nodiscard]] batch view() const { return {inputs, targets, sequences}; }
  std::vector<std::int32_t> inputs, targets;
};

template <class Parallel>
Parallel pipelines(const pipeline_options& cut) {
  if constexpr (std::is_same_v<Parallel, pipeline<>>) {
    return Parallel{cut};
  } else {
    return Parallel{{.cut = cut}};
  }
}

template <class Policy, class Parallel>
auto make_peer(environment env, std::uint32_t ranks) {
  const pipeline_options cut{.micro_batches = 2, .ranks = ranks};
  const auto place = place_in(cut, env.transport.self(), env.transport.size()).value();
  nn::gpt_options o;
  o.layers = layers, o.heads = 2, o.width = 16, o.context = length, o.vocabulary = vocabulary;
  o.tie = false;
  auto model = nn::gpt::create(o, kernels::cpu_backend{1}, part_of(cut, place, layers).value()).value();
  model.initialize(1);
  return make_trainer(std::move(model), std::move(env), {.learning_rate = optim::constant{Policy::rate}, .clip_norm = 0.0F},
                      Policy::comm(), Policy::inner(), pipelines<Parallel>(cut));
}

struct peer_run {
  std::vector<float> parameters;
  std::map<std::uint64_t, support::saved_state> states;  // by step
  std::uint64_t steps = 0, rounds = 0;
  double loss = 0;  // on new text
  std::string error;

  bool operator==(const peer_run& other) const { return parameters == other.parameters && error == other.error; }
};
using runs = std::vector<peer_run>;

struct plan_of_run {
  std::uint64_t steps = 7;
  std::uint32_t ranks = stages;
  std::vector<support::saved_state> from{};
  bool saves = true;
  bool evaluates = false;
};

template <class Policy, class Parallel>
peer_run run_peer(environment env, const plan_of_run& plan) {
  peer_run r;
  const std::uint32_t self = env.transport.self();
  auto t = make_peer<Policy, Parallel>(std::move(env), plan.ranks);
  if (!plan.from.empty()) support::load(t, plan.from[self]);
  auto outcome = t.start();
  while (outcome && t.context().step() < plan.steps) {
    if (plan.saves) r.states[t.context().step()] = support::save(t);
    const auto report = t.step(tokens{t.parallel().place().replica, t.context().step()}.view());
    if (!report) outcome = report.error();
  }
  if (outcome) outcome = t.finish();
  if (outcome && plan.saves) r.states[t.context().step()] = support::save(t);
  if (outcome && plan.evaluates) {
    for (std::uint64_t s = 0; s < 8; ++s) r.loss += t.evaluate(tokens{9, s}.view()).value() / 8;
  }
  if (!outcome) r.error = outcome.error().text();
  r.steps = t.context().step(), r.rounds = t.context().round();
  const auto values = t.model().parameters().values();
  r.parameters.assign(values.begin(), values.end());
  return r;
}

template <class Policy, class Parallel = async_pipeline<>>
runs run(net::memory_network& network, const plan_of_run& plan) {
  runs all(plan.ranks * replicas);
  support::run_cluster(network, plan.ranks * replicas, [&](std::uint32_t peer, environment env) {
    all[peer] = run_peer<Policy, Parallel>(std::move(env), plan);
  });
  return all;
}
template <class Policy, class Parallel = async_pipeline<>>
runs run(const plan_of_run& plan = {}) {
  net::memory_network network{plan.ranks * replicas};
  return run<Policy, Parallel>(network, plan);
}

std::vector<support::saved_state> states_at(const runs& all, std::uint64_t step) {
  std::vector<support::saved_state> states;
  for (const auto& r : all) states.push_back(r.states.at(step));
  return states;
}

void check_without_error(const runs& all) {
  for (const auto& r : all) CHECK(r.error == "");
}

// Both replicas of a stage have made the same updates: all but those of the steps in which it was still filling.
void check_alike(const runs& all, std::uint64_t steps) {
  check_without_error(all);
  for (std::uint32_t rank = 0; rank < stages; ++rank) {
    CHECK((all[rank].parameters == all[stages + rank].parameters));
    const std::uint64_t filling = (stages - 1 - rank) / 2;  // steps of two micro-batches in which none comes back
    CHECK(all[rank].rounds == steps - filling);
  }
}

template <class Policy>
void check_on_networks() {
  const auto memory = run<Policy>();
  check_alike(memory, 7);
  CHECK((run<Policy>() == memory));
  runs tcp(all_peers), simulated(all_peers);
  support::run_over_tcp(all_peers, [&](std::uint32_t p, environment env) {
    tcp[p] = run_peer<Policy, async_pipeline<>>(std::move(env), plan_of_run{});
  });
  CHECK((tcp == memory));
  const std::vector<double> speeds(all_peers, 1.0);
  support::run_simulated(speeds, 3, [&](std::uint32_t p, environment env, sim::process&) {
    simulated[p] = run_peer<Policy, async_pipeline<>>(std::move(env), plan_of_run{});
  });
  CHECK((simulated == memory));
}

template <class Policy>
void check_restored() {
  const auto whole = run<Policy>();
  for (std::uint64_t stop = 1; stop < 7; ++stop) {
    const plan_of_run rest{.from = states_at(whole, stop)};
    const auto restored = run<Policy>(rest);
    check_without_error(restored);
    CHECK((restored == run<Policy>(rest)));
    for (std::uint32_t rank = 0; rank < stages; ++rank) {
      CHECK((restored[rank].parameters == restored[stages + rank].parameters));
    }
  }
  // A pipeline of one stage has nothing in flight: it goes on with the bits of the run that did not stop.
  const auto no_flight = run<Policy>({.ranks = 1});
  for (std::uint64_t stop = 1; stop < 7; ++stop) {
    CHECK((run<Policy>({.ranks = 1, .from = states_at(no_flight, stop)}) == no_flight));
  }
}

// Lost at its n-th network operation, for every `every`th n: everybody comes back with an error or is done, and all go on
// from the newest step that all of them hold.
template <class Policy>
void check_lost(std::uint64_t every) {
  const auto reference = run<Policy>();
  for (const std::uint32_t victim : {0U, 1U, 5U}) {
    int broken_runs = 0;
    for (std::uint64_t n = victim;; n += every) {
      INFO("peer " << victim << " is lost at its network operation " << n);
      net::memory_network network{all_peers};
      network.kill_at(victim, n);
      const auto broken = run<Policy>(network, plan_of_run{});
      if (broken == reference) break;  // n is past the end
      ++broken_runs;
      CHECK_FALSE(broken[victim].error.empty());
      std::uint64_t newest = UINT64_MAX;
      for (const auto& r : broken) newest = std::min(newest, r.states.empty() ? UINT64_MAX : r.states.rbegin()->first);
      const bool all_started = std::none_of(broken.begin(), broken.end(), [](auto& r) { return r.states.empty(); });
      const plan_of_run rest{.from = all_started ? states_at(broken, newest) : std::vector<support::saved_state>{}};
      const auto resumed = run<Policy>(rest);
      check_without_error(resumed);
      if (!all_started || newest == 0) CHECK((resumed == reference));
    }
    CHECK(broken_runs > 5);
  }
}

// Both kinds of pipelines see the same batches.
template <class Policy>
void check_learns(const char* name, double most_lost) {
  const plan_of_run long_run{.steps = 200, .saves = false, .evaluates = true};
  const double late = run<Policy>(long_run)[0].loss;
  const double synchronous = run<Policy, pipeline<>>(long_run)[0].loss;
  INFO(name << ": " << late << ", synchronous " << synchronous);
  CHECK(late < synchronous + most_lost);
  CHECK(synchronous < 1.5);  // uniform is 2.77
}

}  // namespace

TEST_CASE("async pipelines of gradients: the same bits in memory, over TCP, and on slow, jittery, lossy lines",
          "[parallel][fast]") {
  check_on_networks<plain>();
  check_on_networks<half_precision>();
  check_on_networks<demo>();
  check_on_networks<distro>();
  check_on_networks<low_rank>();
  check_on_networks<dion>();
  check_on_networks<trees>();
}

TEST_CASE("async pipelines of gradients: restored twice they make the same bits", "[parallel][fast]") {
  check_restored<plain>();
  check_restored<half_precision>();
  check_restored<demo>();
  check_restored<distro>();
  check_restored<low_rank>();
  check_restored<dion>();
  check_restored<trees>();
}

TEST_CASE("async pipelines of gradients: lost at any network operation, all end, and go on from what all hold",
          "[parallel][fast]") {
  check_lost<plain>(1);
  check_lost<demo>(7);
  check_lost<distro>(7);
  check_lost<low_rank>(7);
  check_lost<dion>(7);
  check_lost<trees>(7);
}

TEST_CASE("async pipelines of gradients: late ones teach what those in time do", "[parallel][fast]") {
  check_learns<plain>("every_step", 0.06);
  check_learns<half_precision>("fp16", 0.06);
  check_learns<demo>("demo", 0.06);
  check_learns<distro>("distro", 0.06);
  check_learns<low_rank>("power_sgd", 0.06);
  check_learns<dion>("dion", 0.06);
  check_learns<trees>("netstorm", 0.06);
}

}  // namespace causeway::parallel
