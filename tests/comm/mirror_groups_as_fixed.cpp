// SPDX-License-Identifier: Apache-2.0
// Groups of mirrors among peers that come and go, where none does, beside the same groups of a fixed set.
#include <causeway/comm/mirrors.hpp>
#include <causeway/optim/sgd.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/blocky.hpp"
#include "support/catch.hpp"
#include "support/elastic.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

struct step_of_one {
  std::vector<std::int32_t> tokens;
  std::vector<float> before;  ///< parameters
};
/// Of each peer, from one record to the next.
using reign = std::vector<std::vector<step_of_one>>;

constexpr std::uint32_t peers = 4;
/// Who learns first of a record is ahead of the others by the time of a short message: less than updates take.
const sim::host_options slow_line{.up_bytes_per_s = 1e6, .down_bytes_per_s = 1e6};

/// All that is computed is told, and every step is a barrier: what a peer has heard when does not depend on luck.
auto policy(comm::mirrors_options o) {
  using codec = compress::sparse<compress::no_transform, compress::significant, compress::none>;
  o.most_ahead = 1;
  return comm::mirrors<codec>{std::move(o), codec{compress::no_transform{}, compress::significant{{.first = 1e-9F}}}};
}

struct elastic_groups {
  std::map<std::uint64_t, reign> reigns{};
  collective::region_list groups{{0, 1}, {2, 3}};  ///< hubs first
};

elastic_groups run_elastic() {
  elastic_groups all;
  std::vector<step_of_one> next(peers);
  support::elastic_options o{.peers = peers, .steps_per_round = 12, .rounds = 4, .size = 4, .host = slow_line};
  o.watches = [&](std::uint32_t host, std::span<const std::int32_t> tokens, std::span<const float> parameters) {
    next[host] = {{tokens.begin(), tokens.end()}, {parameters.begin(), parameters.end()}};
  };
  o.spoils = [&](std::uint32_t host, std::uint64_t round, auto) {
    all.reigns[round].resize(peers);
    all.reigns[round][host].push_back(next[host]);
  };
  support::elastic_run* run = nullptr;
  const auto make = [&](environment env, trainer_options to, std::int64_t size) {
    const bool is_first = env.group->identity() == run->id(0) || env.group->identity() == run->id(1);
    const auto of_group = [is_first] {
      return policy({.label = {.own = is_first ? 0U : 1U}, .record_samples = 12 * 2 * peers});
    };
    return support::elastic_trainers<optim::sgd, support::blocky>(of_group)(std::move(env), to, size);
  };
  support::elastic_run cluster{make, o};
  run = &cluster;
  cluster.boot();
  REQUIRE(cluster.run(10min));
  REQUIRE(!cluster.violation());
  if (cluster.id(3) < cluster.id(2)) std::swap(all.groups[1][0], all.groups[1][1]);
  return all;
}

/// The same steps from where they began, by a fixed set: how far its parameters are off at most.
double run_fixed(const reign& r, const collective::region_list& groups) {
  double farthest = 0;
  sim::world world{sim::world_options{}};
  std::vector<sim::host_index> hosts;
  for (std::uint32_t p = 0; p < peers; ++p) hosts.push_back(world.add_host(slow_line));
  for (const auto self : hosts) {
    world.boot(self, [&, self](sim::process& process) {
      environment env;
      auto transport = process.make_transport(hosts);
      if (!transport) throw std::runtime_error{transport.error().text()};
      env.transport = net::any_transport{std::move(*transport)};
      env.clock = process.clock();
      process.sleep_till({1s});
      support::blocky model{4};
      std::copy(r[self][0].before.begin(), r[self][0].before.end(), model.parameters().values().begin());
      trainer_options to;
      to.learning_rate = optim::constant{0.05F};
      auto t = make_trainer(support::trained_as<support::blocky>{std::move(model)}, std::move(env), to,
                            policy({.groups = groups}), optim::sgd{});
      if (const auto started = t.start(); !started) throw std::runtime_error{started.error().text()};
      for (const step_of_one& s : r[self]) {
        process.compute(50ms);
        const auto here = t.context().parameters();
        for (std::size_t i = 0; i < here.size(); ++i) {
          farthest = std::max(farthest, std::abs(double{here[i]} - double{s.before[i]}));
        }
        const auto report = t.step({s.tokens, s.tokens, static_cast<std::int64_t>(s.tokens.size())});
        if (!report) throw std::runtime_error{report.error().text()};
      }
      if (const auto ended = t.finish(); !ended) throw std::runtime_error{ended.error().text()};
    });
  }
  REQUIRE(world.run());
  return farthest;
}

}  // namespace

TEST_CASE("mirror groups: where nobody goes they are what groups of a fixed set are", "[comm][fast]") {
  const elastic_groups there = run_elastic();
  REQUIRE(there.reigns.size() > 3);
  const auto second = std::next(there.reigns.begin());  // nobody talks before the first record
  for (auto at = second; at != there.reigns.end(); ++at) {
    const reign& r = at->second;
    CAPTURE(at->first);
    for (const auto& steps : r) CHECK(steps.size() == 12);
    CHECK(run_fixed(r, there.groups) < 1e-6);
    CHECK(run_fixed(r, {}) > 1e-3);
    CHECK(run_fixed(r, {there.groups[0], {2}, {3}}) > 1e-3);
  }
}
