// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/module_groups.hpp>

#include <causeway/axis/fragments.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/optim/nesterov.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/train/trainer.hpp>

#include <cmath>
#include <set>
#include <vector>

#include "support/blocky.hpp"
#include "support/catch.hpp"
#include "support/cluster.hpp"

using namespace causeway;

namespace {

using group = std::vector<net::peer_index>;

constexpr std::uint32_t peers = 4;
constexpr std::uint32_t steps = 2, round_count = 3;
constexpr float inner_rate = 0.25F, outer_rate = 0.7F, momentum = 0.9F;

using policy =
    comm::rounds<axis::every, axis::consecutive, axis::module_groups, axis::split_mean<>, axis::outer<optim::nesterov>>;

policy two_by_two(std::vector<double> weights) {
  return policy{axis::every{steps}, axis::consecutive{2}, axis::module_groups{axis::every_path({2, 2}, peers), weights},
                axis::split_mean<>{}, axis::outer<optim::nesterov>{outer_rate, optim::nesterov{{.momentum = momentum}}}};
}

/// The peers' parameters after some rounds of a model of four blocks, and of one more half round, in which peer p sees
/// nothing but token p.
std::vector<std::vector<float>> trained(const std::vector<double>& weights) {
  std::vector<std::vector<float>> ends(peers);
  support::run_cluster(peers, [&](std::uint32_t peer, environment env) {
    trainer_options o;
    o.learning_rate = optim::constant{inner_rate};
    o.clip_norm = 0;
    auto t = make_trainer(support::test_model{support::blocky{4}}, std::move(env), o, two_by_two(weights), optim::sgd{});
    const std::vector<std::int32_t> tokens(4, static_cast<std::int32_t>(peer));
    if (!t.start()) throw std::runtime_error{"start"};
    for (std::uint32_t s = 0; s < steps * round_count; ++s) {
      if (!t.step({tokens, tokens, 1})) throw std::runtime_error{"step"};
    }
    if (!t.finish()) throw std::runtime_error{"finish"};
    const auto values = t.model().parameters().values();
    ends[peer].assign(values.begin(), values.end());
  });
  return ends;
}

/// One value of a module after the rounds: inner SGD takes the share a of the way to each peer's centre, so the mean
/// pseudo-gradient is a · (θ − the mean centre), which Nesterov's momentum follows.
double expected(double start, double centre) {
  const double a = 1 - std::pow(1 - inner_rate, steps);
  double theta = start, velocity = 0;
  for (std::uint32_t r = 0; r < round_count; ++r) {
    const double g = a * (theta - centre);
    velocity = static_cast<double>(momentum) * velocity + g;
    theta -= static_cast<double>(outer_rate) * (g + static_cast<double>(momentum) * velocity);
  }
  return theta;
}

/// The level that a piece of blocky belongs to as a fragment.
std::size_t fragment_of(int block) { return block < 0 || block >= 4 ? 0 : 1 + static_cast<std::size_t>(block) / 2; }

void check_closed_form(const std::vector<double>& weights) {
  const auto ends = trained(weights);
  const auto paths = axis::every_path({2, 2}, peers);
  support::blocky start{4};
  double most = 0;
  for (std::uint32_t p = 0; p < peers; ++p) {
    for (const auto& segment : start.parameters().segments()) {
      const std::size_t f = fragment_of(segment.block);
      for (std::int64_t i = segment.offset; i < segment.offset + segment.size(); ++i) {
        double centre = 0, all = 0;
        for (std::uint32_t q = 0; q < peers; ++q) {
          if (paths[q][f] != paths[p][f]) continue;
          const double w = weights.empty() ? 1.0 : weights[q];
          centre += w * static_cast<double>(support::quadratic::centre(static_cast<std::int32_t>(q), i));
          all += w;
        }
        const auto at = static_cast<std::size_t>(i);
        const double should = expected(static_cast<double>(start.parameters().values()[at]), centre / all);
        most = std::max(most, std::abs(static_cast<double>(ends[p][at]) - should));
      }
    }
  }
  CHECK(most < 1e-5);
}

}  // namespace

TEST_CASE("module_groups: every path is taken once before one is taken again", "[axis][fast]") {
  const auto paths = axis::every_path({2, 3}, 7);
  std::set<std::vector<std::uint32_t>> different(paths.begin(), paths.begin() + 6);
  CHECK(different.size() == 6);
  CHECK(paths[6] == paths[0]);
  CHECK(paths[1] == std::vector<std::uint32_t>{0, 0, 1});
  CHECK(paths[3] == std::vector<std::uint32_t>{0, 1, 0});
}

TEST_CASE("module_groups: a fragment is exchanged by those who have the same version, in every round", "[axis][fast]") {
  const axis::module_groups groups{.paths = axis::every_path({2, 2}, 4)};
  const auto of = [&](std::size_t fragment, net::peer_index self, std::uint64_t number) {
    return groups.members({.seed = 1, .number = number, .self = self, .peers = 4, .fragment = fragment});
  };
  for (std::uint64_t number = 0; number < 3; ++number) {
    CHECK(of(0, 2, number) == group{0, 1, 2, 3});
    CHECK(of(1, 0, number) == group{0, 1});
    CHECK(of(1, 3, number) == group{2, 3});
    CHECK(of(2, 0, number) == group{0, 2});
    CHECK(of(2, 3, number) == group{1, 3});
  }
}

TEST_CASE("module_groups: each module follows the mean of the peers whose paths have it", "[axis][fast]") {
  check_closed_form({});
}

TEST_CASE("module_groups: peers count by the weights of their shards", "[axis][fast]") { check_closed_form({1, 3, 2, 5}); }

TEST_CASE("module_groups: a mean of the modules of P paths can be made √P times longer", "[axis][fast]") {
  axis::module_groups groups{.paths = axis::every_path({2, 1}, 4)};  // two paths, each of two peers
  CHECK(groups.length({.self = 0, .peers = 4, .fragment = 0}) == 1);
  groups.lengthen = true;
  CHECK(groups.length({.self = 0, .peers = 4, .fragment = 0}) == std::sqrt(2.0F));
  CHECK(groups.length({.self = 3, .peers = 4, .fragment = 1}) == 1);
  CHECK(groups.length({.self = 2, .peers = 4, .fragment = 2}) == std::sqrt(2.0F));
}

TEST_CASE("module_groups: modules that nobody else has are exchanged with nobody", "[axis][fast]") {
  const auto alone = axis::module_groups{.paths = {{0, 0}, {0, 1}, {0, 2}}};
  CHECK(alone.members({.self = 1, .peers = 3, .fragment = 1}) == group{1});
}

TEST_CASE("module_groups: paths and weights that do not fit are refused", "[axis][fast]") {
  const auto paths = axis::every_path({2, 2}, 4);
  CHECK(axis::module_groups{paths}.check(4));
  CHECK_FALSE(axis::module_groups{paths}.check(5));
  CHECK_FALSE(axis::module_groups{}.check(1));
  CHECK_FALSE(axis::module_groups{.paths = {{0, 0}, {0}}}.check(2));
  CHECK(axis::module_groups{paths, {1, 2, 3, 4}}.check(4));
  CHECK_FALSE(axis::module_groups{paths, {1, 2, 3}}.check(4));
  CHECK_FALSE(axis::module_groups{paths, {1, 2, 3, 0}}.check(4));
  CHECK_FALSE(axis::module_groups{paths, {1, 2, 3, std::nan("")}}.check(4));
  CHECK(axis::module_groups{paths}.check_fragments(3));
  CHECK_FALSE(axis::module_groups{paths}.check_fragments(2));
}
