// SPDX-License-Identifier: Apache-2.0
// Paths of peers that come and go, with all that each peer trained worked out again by hand. Killed at all calls of the
// network: tests/presets/elastic.cpp.

#include <causeway/comm/path_modules.hpp>

#include <causeway/presets/modular.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/as_if_fixed.hpp"
#include "support/blocky.hpp"
#include "support/catch.hpp"
#include "support/elastic.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using presets::make;

namespace {

constexpr std::uint64_t local_steps = 3;
constexpr double rate = 0.05, outer_rate = 0.7, momentum = 0.5;

/// Two paths: the first level has a version for each of them, the second is of both.
presets::dipaco_options two_paths(std::vector<double> weights = {}) {
  return {.paths = axis::every_path({2, 1}, 2),
          .blocks_per_level = 2,
          .weights = std::move(weights),
          .local_steps = local_steps,
          .outer_momentum = static_cast<float>(momentum)};
}

struct made_step {
  std::uint64_t peer, life;  ///< which process of it
  std::uint32_t path;
  std::vector<std::int32_t> tokens;
  std::vector<float> parameters;  ///< before it
};

/// All steps of a run, by the round that they are for.
struct history {
  std::map<std::uint64_t, std::vector<made_step>> rounds;
  std::uint64_t lives = 0;
};

/// One that notes what it trains.
template <class Trainer>
class noted_trainer final : public support::member_trainer {
 public:
  noted_trainer(Trainer trainer, history& seen) : trainer_{std::move(trainer)}, seen_{seen}, life_{++seen.lives} {}

  result<void> start() override { return trainer_.start(); }
  result<std::vector<std::uint64_t>> draw(std::uint64_t samples) override { return trainer_.draw(samples); }
  result<void> step(const causeway::batch& b) override {
    const auto path = trainer_.comm().path();
    if (!path) throw std::runtime_error{"trains without a path"};
    const auto values = parameters();
    seen_.rounds[round()].push_back(
        {trainer_.context().identity(), life_, *path, {b.inputs.begin(), b.inputs.end()}, {values.begin(), values.end()}});
    CAUSEWAY_TRY(trainer_.step(b));
    return {};
  }
  std::span<float> parameters() override { return trainer_.context().parameters(); }
  std::span<const float> shared_parameters() override { return trainer_.comm().shared_parameters(); }
  std::uint64_t round() override { return trainer_.context().round(); }
  std::optional<std::uint64_t> batch() override { return {}; }

 private:
  Trainer trainer_;
  history& seen_;
  std::uint64_t life_;
};

support::elastic_run::make_trainer trainers(const presets::dipaco_options& policy, history& seen) {
  return [policy, &seen](environment env, trainer_options to, std::int64_t) -> std::unique_ptr<support::member_trainer> {
    to.clip_norm = 0;
    auto whole = make_trainer(support::test_model{support::blocky{4}}, std::move(env), to, make(policy), optim::sgd{},
                              fault::quorum{});
    return std::make_unique<noted_trainer<decltype(whole)>>(std::move(whole), seen);
  };
}

/// The modules of all paths, as the samples that were trained make them.
class by_hand {
 public:
  explicit by_hand(const presets::dipaco_options& policy) : policy_{policy} {
    const auto start = model_.parameters().values();
    for (std::size_t v = 0; v < 2; ++v) values_.emplace_back(start.begin(), start.end());
    velocities_.assign(2, row(start.size()));
  }

  /// How far what a peer began a round with is from its path.
  [[nodiscard]] double distance(const made_step& first) {
    double most = 0;
    for_each([&](std::size_t i, bool parted) {
      most = std::max(most, std::abs(values_[parted ? first.path : 0][i] - static_cast<double>(first.parameters[i])));
    });
    return most;
  }
  /// A round with these peers' steps in it. Rows of a path count what its weight says, all of one alike.
  void exchange(const std::map<std::uint64_t, std::vector<made_step>>& peers) {
    std::vector<std::size_t> of_path(2);
    for (const auto& [peer, steps] : peers) ++of_path[steps[0].path];
    std::vector<row> moved(2, row(values_[0].size()));
    std::vector<double> counted(2);
    for (const auto& made : peers) {
      const auto& steps = made.second;
      const std::uint32_t path = steps[0].path;
      const double weight = policy_.weights.empty() ? 1 : policy_.weights[path] / static_cast<double>(of_path[path]);
      counted[path] += weight;
      for_each([&](std::size_t i, bool parted) {
        const double begin = values_[parted ? path : 0][i];
        double theta = begin;
        for (const made_step& s : steps) theta -= rate * (theta - centre(s.tokens, i));
        moved[path][i] += weight * (begin - theta);
      });
    }
    for_each([&](std::size_t i, bool parted) {
      for (std::size_t v = 0; v < (parted ? 2U : 1U); ++v) {
        const double mine = counted[v], other = parted ? 0 : counted[1];
        if (mine + other == 0) continue;  // nobody trained that module
        const double paths = (mine > 0 ? 1 : 0) + (other > 0 ? 1 : 0);
        const double g = std::sqrt(paths) * (moved[v][i] + (parted ? 0 : moved[1][i])) / (mine + other);
        double& velocity = velocities_[v][i];
        velocity = momentum * velocity + g;
        values_[v][i] -= outer_rate * (g + momentum * velocity);
      }
    });
  }

 private:
  using row = std::vector<double>;

  static double centre(const std::vector<std::int32_t>& tokens, std::size_t i) {
    double sum = 0;
    for (const auto t : tokens) sum += static_cast<double>(support::quadratic::centre(t, static_cast<std::int64_t>(i)));
    return sum / static_cast<double>(tokens.size());
  }
  /// f(value, whether each path has its own): those of the first level.
  template <class F>
  void for_each(F&& f) {
    for (const auto& s : model_.parameters().segments()) {
      for (std::int64_t i = s.offset; i < s.offset + s.size(); ++i) {
        f(static_cast<std::size_t>(i), s.block == 0 || s.block == 1);
      }
    }
  }

  presets::dipaco_options policy_;
  support::blocky model_{4};
  std::vector<row> values_, velocities_;  ///< [version]
};

/// Of one round: the steps of each peer's last life. Who died before it had said that it was ready is left out.
std::map<std::uint64_t, std::vector<made_step>> contributions(const std::vector<made_step>& steps,
                                                              const std::function<bool(const made_step&)>& lost) {
  std::map<std::uint64_t, std::vector<made_step>> peers;
  for (const made_step& s : steps) {
    auto& mine = peers[s.peer];
    if (!mine.empty() && mine.back().life != s.life) mine.clear();
    mine.push_back(s);
  }
  std::erase_if(peers, [&](const auto& p) { return p.second.size() != local_steps || lost(p.second[0]); });
  return peers;
}

/// Whether every peer began every round with its path's modules as they should be, but for the run's last.
void check_by_hand(const history& seen, const presets::dipaco_options& policy,
                   const std::function<bool(std::uint64_t round, const made_step&)>& lost = {}) {
  REQUIRE(seen.rounds.size() > 6);
  by_hand hand{policy};
  for (const auto& one : seen.rounds) {
    const std::uint64_t round = one.first;
    const auto& steps = one.second;
    INFO("round " << round);
    std::map<std::uint64_t, bool> begun;
    for (const made_step& s : steps) {
      if (!std::exchange(begun[s.life], true)) CHECK(hand.distance(s) < 1e-4);
    }
    hand.exchange(contributions(steps, [&](const made_step& s) { return lost && lost(round, s); }));
  }
}

std::set<std::uint32_t> paths_of(const history& seen, std::uint64_t peer) {
  std::set<std::uint32_t> all;
  for (const auto& [round, steps] : seen.rounds) {
    for (const made_step& s : steps) {
      if (s.peer == peer) all.insert(s.path);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("path modules: without faults peers that may come and go do what fixed ones do, bit for bit", "[comm][fast]") {
  const auto policy = [](std::vector<double> weights) {
    return [weights] { return make(presets::dipaco_options{.blocks_per_level = 2, .weights = weights, .local_steps = 3}); };
  };
  support::as_if_fixed<support::blocky>(policy({}), 4, 0, 4);
  support::as_if_fixed<support::blocky>(policy({1, 2, 1, 3}), 4, 0, 4);
}

TEST_CASE("path modules: a newcomer takes the path with the fewest peers, as it was committed", "[comm][fast]") {
  for (const auto& weights : {std::vector<double>{}, std::vector<double>{1, 3}}) {
    history seen;
    support::elastic_run cluster{trainers(two_paths(weights), seen), {.peers = 4, .expected = 3, .rounds = 12, .size = 4}};
    for (std::uint32_t host = 0; host < 3; ++host) cluster.boot(host);
    cluster.run(3s);
    cluster.boot(3);
    REQUIRE(cluster.run(10min));
    REQUIRE(!cluster.violation());
    CHECK(paths_of(seen, cluster.id(0)) == std::set<std::uint32_t>{0});
    CHECK(paths_of(seen, cluster.id(3)) == std::set<std::uint32_t>{1});  // three have 0, 1 and 0
    check_by_hand(seen, two_paths(weights));
  }
}

TEST_CASE("path modules: a path that nobody trains stays as it is, until somebody comes", "[comm][fast]") {
  const std::set<std::uint32_t> second{1};
  history seen;
  support::elastic_options o{.peers = 4, .expected = 3, .rounds = 60, .size = 4};
  std::uint64_t died_in = 0;
  std::uint32_t lost = 0;
  support::elastic_run* run = nullptr;
  o.dies_at = [&](std::uint32_t host, std::string_view point) {
    if (died_in > 0 || point != "before_ready" || seen.rounds.size() != 5) return false;
    if (paths_of(seen, run->id(host)) != second) return false;  // the others have the first path
    died_in = seen.rounds.rbegin()->first;
    lost = host;
    return true;
  };
  support::elastic_run cluster{trainers(two_paths(), seen), o};
  run = &cluster;
  for (std::uint32_t host = 0; host < 3; ++host) cluster.boot(host);
  cluster.run(4s);
  REQUIRE(died_in > 0);
  CHECK(seen.rounds.rbegin()->first > died_in + 1);
  cluster.boot(3);
  cluster.run(6s);
  cluster.world().restart(lost);  // it comes back, and has its old path
  REQUIRE(cluster.run(10min));
  REQUIRE(!cluster.violation());
  CHECK(seen.lives == 5);
  CHECK(paths_of(seen, cluster.id(lost)) == second);
  CHECK(paths_of(seen, cluster.id(3)) == second);
  check_by_hand(seen, two_paths(),
                [&](std::uint64_t round, const made_step& s) { return round == died_in && s.peer == cluster.id(lost); });
}

TEST_CASE("path modules: after the death of all each goes on with its path and its momentum", "[comm][fast]") {
  history seen;
  support::elastic_run cluster{trainers(two_paths(), seen), {.peers = 3, .rounds = 40, .size = 4}};
  cluster.boot();
  cluster.run(3s);
  const auto before = seen.rounds.rbegin()->first;
  for (std::uint32_t host = 0; host < 3; ++host) cluster.world().kill(host);
  for (std::uint32_t host = 0; host < 3; ++host) cluster.world().restart(host);
  REQUIRE(cluster.run(10min));
  REQUIRE(!cluster.violation());
  CHECK(before > 4);
  CHECK(seen.lives == 6);
  for (std::uint32_t host = 0; host < 3; ++host) CHECK(paths_of(seen, cluster.id(host)).size() == 1);
  check_by_hand(seen, two_paths());
}

TEST_CASE("path modules: paths and weights of peers that come and go are those of the run", "[comm][fast]") {
  using causeway::axis::module_groups;
  const auto paths = axis::every_path({2, 2}, 4);
  CHECK(module_groups{paths, {1, 2, 1, 3}}.check(0));
  CHECK_FALSE(module_groups{paths, {1, 2, 1}}.check(0));
  CHECK_FALSE(module_groups{}.check(0));
  const auto all = module_groups{paths}.modules();
  REQUIRE(all.size() == 5);
  CHECK((all[0].fragment == 0 && all[0].version == 0));
  CHECK((all[4].fragment == 2 && all[4].version == 1));
  CHECK(module_groups{paths}.has(1, all[4]));
  CHECK_FALSE(module_groups{paths}.has(2, all[4]));
}
