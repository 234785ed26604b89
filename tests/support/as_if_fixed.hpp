// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_AS_IF_FIXED_HPP
#define CAUSEWAY_TESTS_SUPPORT_AS_IF_FIXED_HPP

// Whether a policy does among peers that may come and go, as long as none does, what it does among fixed ones.

#include <causeway/optim/sgd.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/blocky.hpp"
#include "support/catch.hpp"
#include "support/cluster.hpp"
#include "support/elastic.hpp"
#include "support/quadratic.hpp"

namespace support {

struct step_of_a_peer {
  std::vector<std::int32_t> tokens;
  std::vector<float> parameters;  ///< before it
};
using life = std::vector<step_of_a_peer>;

/// Peers without faults, in the order of sums and groups: the founder, and the others by their identities.
template <class M, class Inner, class MakePolicy>
std::vector<life> quiet_run(MakePolicy policy, std::int64_t size, std::uint32_t peers) {
  elastic_options o{.peers = peers, .steps_per_round = 20, .rounds = 3, .size = size};
  std::vector<life> lives(o.peers);
  o.watches = [&](std::uint32_t host, std::span<const std::int32_t> tokens, std::span<const float> parameters) {
    lives[host].push_back({{tokens.begin(), tokens.end()}, {parameters.begin(), parameters.end()}});
  };
  elastic_cluster<MakePolicy, Inner, M> cluster{policy, o};
  cluster.boot();
  REQUIRE(cluster.run(std::chrono::minutes{10}));
  REQUIRE(!cluster.violation());
  std::vector<life> sorted;
  std::map<std::uint64_t, std::uint32_t> hosts;
  for (std::uint32_t host = 0; host < peers; ++host) hosts[host == 0 ? 0 : cluster.id(host)] = host;
  for (const auto& [id, host] : hosts) sorted.push_back(std::move(lives[host]));
  return sorted;
}

inline float farthest(std::span<const float> a, std::span<const float> b) {
  float most = a.size() == b.size() ? 0.0F : 1e9F;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

/// Without faults a changing set of peers does what a fixed one does with the same samples, bit for bit, up to the last
/// exchange, which is of everything.
template <class M = quadratic, class Inner = causeway::optim::sgd, class MakePolicy>
void as_if_fixed(MakePolicy policy, std::int64_t size = 37, float tolerance = 0, std::uint32_t peers = 3) {
  const std::vector<life> lives = quiet_run<M, Inner>(policy, size, peers);
  const std::size_t steps = lives[0].size() - 12;
  REQUIRE(steps > 40);
  std::vector<std::string> problems(peers);
  support::run_cluster(peers, [&](std::uint32_t peer, causeway::environment env) {
    causeway::trainer_options options;
    options.learning_rate = causeway::optim::constant{0.05F};
    M model{static_cast<std::conditional_t<std::is_same_v<M, blocky>, int, std::int64_t>>(size)};
    auto t = causeway::make_trainer(trained_as<M>{std::move(model)}, std::move(env), options, policy(), Inner{});
    if (const auto started = t.start(); !started) problems[peer] = started.error().text();
    for (std::size_t i = 0; i < steps && problems[peer].empty(); ++i) {
      const step_of_a_peer& there = lives[peer][i];
      const auto here = t.context().parameters();
      if (farthest(here, there.parameters) > tolerance) {
        problems[peer] = "differs before step " + std::to_string(i);
      }
      const auto report = t.step({there.tokens, there.tokens, static_cast<std::int64_t>(there.tokens.size())});
      if (!report) problems[peer] = report.error().text();
    }
  });
  INFO("of " << lives[0].size() << " steps");
  for (const std::string& problem : problems) CHECK(problem == "");
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_AS_IF_FIXED_HPP
