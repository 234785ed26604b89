// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/async_pipeline.hpp>

#include <causeway/comm/periodic.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/optim/nadam.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/conformance.hpp"
#include "support/other_networks.hpp"
#include "support/timed_stages.hpp"

// Two asynchronous pipelines of three stages, which average every third step, on every kind of network, stopped anywhere,
// and broken anywhere.
namespace causeway::parallel {
namespace {

using policy = async_pipeline<stage::coded<compress::block_int8>>;
using trainer_type = trainer<support::timed_stages, comm::periodic<>, policy, optim::nadam>;

constexpr std::uint32_t ranks = 3, replicas = 2, all_peers = ranks * replicas;
constexpr std::uint64_t steps = 7;
constexpr std::int64_t blocks = 3;

async_pipeline_options options() { return {.cut = {.micro_batches = 2, .ranks = ranks}}; }

trainer_type make_peer(environment env) {
  const auto place = place_in(options().cut, env.transport.self(), env.transport.size()).value();
  support::timed_stages model{blocks, 4, part_of(options().cut, place, blocks).value()};
  return make_trainer(std::move(model), std::move(env), {.learning_rate = optim::constant{0.01F}},
                      comm::periodic<>{{.local_steps = 3}}, policy{options()}, optim::nadam{});
}

struct peer_run {
  std::vector<float> parameters;
  std::map<std::uint64_t, support::saved_state> states;  // by step
  support::saved_state last;                             // also that of a step whose exchange failed
  std::uint64_t steps = 0, round = 0;
  std::string error;

  bool operator==(const peer_run& other) const { return parameters == other.parameters && error == other.error; }
};

peer_run run_peer(environment env, const support::saved_state* from = nullptr, std::uint64_t until = steps) {
  peer_run r;
  auto t = make_peer(std::move(env));
  if (from != nullptr) support::load(t, *from);
  auto outcome = t.start();
  while (outcome && t.context().step() < until) {
    r.states[t.context().step()] = support::save(t);
    const auto replica = static_cast<std::int32_t>(t.parallel().place().replica);
    const auto s = static_cast<std::int32_t>(t.context().step());
    const std::vector<std::int32_t> tokens{s % 5 + replica, (s * 3 + 1) % 7};
    const auto report = t.step({tokens, tokens, 2});
    if (!report) outcome = report.error();
  }
  if (outcome) outcome = t.finish();
  if (!outcome) r.error = outcome.error().text();
  if (outcome) r.states[t.context().step()] = support::save(t);
  r.last = support::save(t);
  r.steps = t.context().step(), r.round = t.context().round();
  const auto values = t.model().parameters().values();
  r.parameters.assign(values.begin(), values.end());
  return r;
}

using runs = std::vector<peer_run>;

runs run(net::memory_network& network, const std::vector<support::saved_state>& from = {}, std::uint64_t until = steps) {
  runs all(all_peers);
  support::run_cluster(network, all_peers, [&](std::uint32_t peer, environment env) {
    all[peer] = run_peer(std::move(env), from.empty() ? nullptr : &from[peer], until);
  });
  return all;
}
runs run(const std::vector<support::saved_state>& from = {}, std::uint64_t until = steps) {
  net::memory_network network{all_peers};
  return run(network, from, until);
}

std::vector<support::saved_state> states_at(const runs& all, std::uint64_t step) {
  std::vector<support::saved_state> states;
  for (const auto& r : all) states.push_back(r.states.at(step));
  return states;
}

}  // namespace

TEST_CASE("async pipelines: the same bits in memory, over TCP, and on slow, jittery, lossy lines", "[parallel][fast]") {
  const auto memory = run();
  for (const auto& r : memory) CHECK(r.error.empty());
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {  // stage by stage, the replicas have met
    CHECK((memory[rank].parameters == memory[ranks + rank].parameters));
  }

  runs tcp(all_peers);
  support::run_over_tcp(all_peers, [&](std::uint32_t p, environment env) { tcp[p] = run_peer(std::move(env)); });
  CHECK((tcp == memory));

  runs simulated(all_peers);
  const std::vector<double> speeds(all_peers, 1.0);
  support::run_simulated(speeds, 3,
                         [&](std::uint32_t p, environment env, sim::process&) { simulated[p] = run_peer(std::move(env)); });
  CHECK((simulated == memory));
}

TEST_CASE("async pipelines: a checkpoint holds nothing of what is in flight, and a restored run fills anew",
          "[parallel][fast]") {
  const auto whole = run();
  for (std::uint64_t stop = 1; stop < steps; ++stop) {
    const auto states = states_at(whole, stop);
    const auto restored = run(states), again = run(states);
    CHECK((restored == again));
    for (const auto& r : restored) {
      CHECK(r.error.empty());
      CHECK(r.steps == steps);
    }
  }
  // While it fills, a stage stands still: rank 0 here for the two steps in which nothing comes back whole.
  const auto filling = run(states_at(whole, 4), 5);
  CHECK(filling[0].error.empty());
  // Stages that were stopped at different steps would be given different batches.
  auto mixed = states_at(whole, 3);
  mixed[1] = whole[1].states.at(4);
  const auto refused = run(mixed);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    CHECK(refused[rank].error.find("checkpoints of the same step") != std::string::npos);
  }
}

TEST_CASE("async pipelines: lost at any network operation, every peer comes back with an error or is done",
          "[parallel][fast]") {
  const auto reference = run();
  int went_on = 0, refused = 0;
  for (const std::uint32_t victim : {0U, 1U, 5U}) {
    for (std::uint64_t n = 0;; ++n) {
      INFO("peer " << victim << " is lost at its network operation " << n);
      net::memory_network network{all_peers};
      network.kill_at(victim, n);
      const auto broken = run(network);
      if (broken == reference) break;  // n is past the end
      CHECK_FALSE(broken[victim].error.empty());
      std::vector<support::saved_state> from;  // the newest step that all hold; none where a peer did not start
      const auto holds = [](std::uint64_t s) { return [s](const peer_run& r) { return r.states.contains(s); }; };
      for (std::uint64_t s = 0; s <= steps; ++s) {
        if (std::all_of(broken.begin(), broken.end(), holds(s))) from = states_at(broken, s);
      }
      const auto resumed = run(from);
      for (const auto& r : resumed) CHECK(r.error == "");
      if (std::any_of(broken.begin(), broken.end(), [&](auto& r) { return r.round != broken[0].round; })) continue;
      for (std::size_t p = 0; p < broken.size(); ++p) from.resize(all_peers), from[p] = broken[p].last;
      const auto stopped = run(from);  // stages at different steps, or not: they go on, or say why not
      for (const auto& r : stopped) ++(r.error.empty() ? went_on : refused);
    }
  }
  CHECK(went_on > 0);
  CHECK(refused > 0);
}

}  // namespace causeway::parallel
