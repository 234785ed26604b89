// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/pipeline.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/compress/block_int8.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/conformance.hpp"
#include "support/other_networks.hpp"
#include "support/pipelines.hpp"

// Two pipelines of two stages on every kind of network, stopped anywhere, and broken anywhere. One type of trainer: it
// takes long to compile.
namespace causeway::parallel {
namespace {

using codec = stage::coded<compress::block_int8>;
using policy = pipeline<stage::opportunistic<stage::one_f_one_b>, codec>;
using trainer_type = trainer<nn::gpt, comm::every_step<>, policy, optim::adamw>;

constexpr support::pipeline_case shape{.ranks = 2, .replicas = 2, .micro_batches = 2, .sequences = 4, .steps = 3};
constexpr std::uint32_t all_peers = shape.ranks * shape.replicas;

trainer_type make_peer(environment env) {
  auto o = support::small_gpt(2);
  o.tie = true;
  const pipeline_options po{.micro_batches = shape.micro_batches, .ranks = shape.ranks};
  const auto place = support::detail::valued(place_in(po, env.transport.self(), env.transport.size()));
  auto part = support::detail::valued(part_of(po, *place, o.layers));
  auto model = support::detail::valued(nn::gpt::create(o, kernels::cpu_backend{1}, std::move(*part)));
  return make_trainer(std::move(*model), std::move(env), support::trainer_options_for(shape), comm::every_step<>{},
                      policy{po}, optim::adamw{});
}

// Runs a peer from `from` until it has taken `until` steps, and says what came of it.
support::peer_history run_peer(environment env, const support::saved_state* from, std::uint64_t until) {
  support::peer_history h;
  trainer_type t = make_peer(std::move(env));
  if (from != nullptr) support::load(t, *from);
  auto outcome = t.start();
  const auto remember = [&] { h.rounds[t.context().step()] = support::save(t); };
  if (outcome) remember();
  while (outcome && t.context().step() < until) {
    const support::token_batch b{t.parallel().place().replica, t.context().step(), shape.sequences};
    const auto report = t.step(b.view());
    if (!report) {
      outcome = report.error();
    } else {
      remember();
    }
  }
  h.finished = outcome.has_value();
  if (!outcome) h.error = outcome.error().text();
  const auto values = t.model().parameters().values();
  h.parameters.assign(values.begin(), values.end());
  return h;
}

using histories = std::vector<support::peer_history>;

histories run(net::memory_network& network, const std::vector<support::saved_state>& from, std::uint64_t until) {
  histories all(all_peers);
  support::run_cluster(network, all_peers, [&](std::uint32_t peer, environment env) {
    all[peer] = run_peer(std::move(env), from.empty() ? nullptr : &from[peer], until);
  });
  return all;
}
histories run(const std::vector<support::saved_state>& from, std::uint64_t until) {
  net::memory_network network{all_peers};
  return run(network, from, until);
}

}  // namespace

TEST_CASE("pipelines: the same bits in memory, over TCP, and on slow, jittery, lossy lines", "[parallel][fast]") {
  const auto memory = run({}, shape.steps);
  for (const auto& h : memory) REQUIRE(h.finished);

  histories tcp(all_peers);
  support::run_over_tcp(all_peers,
                        [&](std::uint32_t p, environment env) { tcp[p] = run_peer(std::move(env), nullptr, shape.steps); });
  support::same_end(memory, tcp);

  histories simulated(all_peers);
  const std::vector<double> speeds(all_peers, 1.0);
  support::run_simulated(speeds, 3, [&](std::uint32_t p, environment env, sim::process&) {
    simulated[p] = run_peer(std::move(env), nullptr, shape.steps);
  });
  support::same_end(memory, simulated);
}

TEST_CASE("pipelines: stopped after any step, saved and loaded, they go on with the same bits", "[parallel][fast]") {
  const auto reference = run({}, shape.steps);
  for (std::uint64_t stop = 0; stop < shape.steps; ++stop) {
    INFO("stopped after step " << stop);
    std::vector<support::saved_state> states;
    for (const auto& h : run({}, stop)) states.push_back(h.rounds.rbegin()->second);
    support::same_end(reference, run(states, shape.steps));
  }
}

TEST_CASE("pipelines: lost at any network operation, all peers come back, and go on from a common step",
          "[parallel][fast]") {
  const auto reference = run({}, shape.steps);
  for (const std::uint32_t victim : {0U, 3U}) {
    for (std::uint64_t n = 0;; n += 3) {
      INFO("peer " << victim << " is lost at its network operation " << n);
      net::memory_network network{all_peers};
      network.kill_at(victim, n);
      const auto broken = run(network, {}, shape.steps);
      if (std::all_of(broken.begin(), broken.end(), [](const auto& h) { return h.finished; })) break;  // n is past the end
      const auto step = support::common_round(broken);
      std::vector<support::saved_state> states;
      if (step) {
        for (const auto& h : broken) states.push_back(h.rounds.at(*step));
      }
      support::same_end(reference, run(states, shape.steps));
    }
  }
}

}  // namespace causeway::parallel
