// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/recovery_reroute.hpp>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "cluster_snapshots.hpp"
#include "support/catch.hpp"

namespace causeway {
namespace {

using stage::recovery::reroute;

constexpr std::int64_t layers = 6;
constexpr std::uint32_t micro_batches = 12;

stage::layout arranged(reroute& policy, const stage::cluster_snapshot& g) {
  const auto made = policy.arrange(g);
  REQUIRE(made);
  const auto sound = made->check(g.layers, g.micro_batches);
  INFO((sound ? std::string{} : sound.error().text()));
  REQUIRE(sound);
  return *made;
}

std::size_t holders(const stage::layout& l, std::size_t stage) {
  std::size_t n = 0;
  for (const auto& r : l.replicas) n += r.assignments[stage].peer != stage::nobody ? 1 : 0;
  return n;
}

}  // namespace

TEST_CASE("reroute: whoever is left keeps its assignment, and no block moves", "[stage][fast]") {
  reroute policy{3};
  const stage::layout whole = arranged(policy, newcomers(layers, micro_batches, 9));
  CHECK_FALSE(whole.has_unassigned());
  for (const std::uint64_t lost : whole.assigned()) {
    CAPTURE(lost);
    const auto g = after_losing(whole, layers, micro_batches, {lost});
    const stage::layout made = arranged(policy, g);
    REQUIRE(made.replicas.size() == 3);
    CHECK(made.assigned().size() == 8);
    for (std::size_t r = 0; r < 3; ++r) {
      for (std::size_t s = 0; s < 3; ++s) {
        const std::uint64_t before = whole.replicas[r].assignments[s].peer;
        CHECK(made.replicas[r].assignments[s].peer == (before == lost ? stage::nobody : before));
      }
    }
  }
}

TEST_CASE("reroute: micro-batches go to the twins in turn, and through all other stages as they did", "[stage][fast]") {
  reroute policy{3};
  const stage::layout whole = arranged(policy, newcomers(layers, micro_batches, 9));
  const std::uint64_t lost = whole.replicas[1].assignments[2].peer;
  const stage::layout made = arranged(policy, after_losing(whole, layers, micro_batches, {lost}));
  const auto assigned = made.assigned();
  const auto routes = made.routes();
  REQUIRE(routes.size() == micro_batches);
  std::vector<std::size_t> work(assigned.size());
  for (std::size_t m = 0; m < routes.size(); ++m) {
    REQUIRE(routes[m].size() == 3);
    for (std::size_t s = 0; s < 3; ++s) {
      ++work[routes[m][s]];
      const std::uint64_t usual = made.replicas[m % 3].assignments[s].peer;
      if (usual != stage::nobody) CHECK(assigned[routes[m][s]] == usual);
      if (usual == stage::nobody)
        CHECK(assigned[routes[m][s]] == made.replicas[m / 3 % 2 == 0 ? 0 : 2].assignments[s].peer);
    }
  }
  for (std::size_t p = 0; p < assigned.size(); ++p) {
    const bool twin = made.find(assigned[p])->computes == nn::block_range{4, 6};
    CHECK(work[p] == (twin ? 6 : 4));
  }
}

TEST_CASE("reroute: the order is sound, within the usual room, and quicker than a pipeline less", "[stage][fast]") {
  reroute policy{4};
  // 3 pipelines of 4 stages, 4 micro-batches each, F = I = W = 1: 21 s; two pipelines with 6 each take 27 s. Behind the
  // second stage a loss costs nothing at all.
  const stage::layout whole = arranged(policy, newcomers(8, micro_batches, 12));
  for (std::size_t s = 0; s < 4; ++s) {
    CAPTURE(s);
    const std::uint64_t lost = whole.replicas[2].assignments[s].peer;
    const stage::layout made = arranged(policy, after_losing(whole, 8, micro_batches, {lost}));
    const auto order = policy.order(made);
    REQUIRE(order);
    CHECK(plan::check(*order));
    const double seconds = policy.seconds(made).value();
    CHECK(seconds >= 6 * 3);  // a twin's work
    CHECK(seconds <= (s < 2 ? 23 : 21));
  }
  CHECK(reroute(4, plan::equal_costs(3)).order(whole).error().code == errc::invalid_argument);
}

TEST_CASE("reroute: spare peers fill the gaps, most of what is missing first", "[stage][fast]") {
  reroute policy{2};
  const stage::layout whole = arranged(policy, newcomers(layers, micro_batches, 4));
  auto g = after_losing(whole, layers, micro_batches, {whole.replicas[1].assignments[1].peer});
  g.peers.push_back({50, {{0, 3}}});
  g.peers.push_back({51, {{2, 6}}});
  g.micro_batches = 2;  // no third pipeline
  const stage::layout made = arranged(policy, g);
  CHECK_FALSE(made.has_unassigned());
  CHECK(made.replicas[1].assignments[1].peer == 51);
  CHECK(made.find(50) == nullptr);
}

TEST_CASE("reroute: losses are evened out among the stages", "[stage][fast]") {
  reroute policy{2};
  const stage::layout whole = arranged(policy, newcomers(layers, micro_batches, 8));
  const std::vector<std::uint64_t> lost{whole.replicas[0].assignments[1].peer, whole.replicas[2].assignments[1].peer};
  const stage::layout made = arranged(policy, after_losing(whole, layers, micro_batches, lost));
  CHECK(made.replicas.size() == 4);
  CHECK(holders(made, 0) == 3);
  CHECK(holders(made, 1) == 3);
}

TEST_CASE("reroute: a stage without a twin, or peers for another pipeline: all anew", "[stage][fast]") {
  reroute policy{2};
  const stage::layout whole = arranged(policy, newcomers(layers, micro_batches, 4));
  const std::vector<std::uint64_t> stage_0{whole.replicas[0].assignments[0].peer, whole.replicas[1].assignments[0].peer};
  const stage::layout left = arranged(policy, after_losing(whole, layers, micro_batches, stage_0));
  CHECK(left.replicas.size() == 1);
  CHECK_FALSE(left.has_unassigned());
  auto more = after_losing(whole, layers, micro_batches, {});
  more.peers.push_back({50, {}});
  more.peers.push_back({51, {}});
  CHECK(arranged(policy, more).replicas.size() == 3);
  const auto one = policy.arrange(after_losing(left, layers, micro_batches, {left.replicas[0].assignments[0].peer}));
  CHECK(one.error().code == errc::out_of_memory);
  CHECK(reroute{7}.arrange(newcomers(layers, micro_batches, 9)).error().code == errc::invalid_argument);
}

TEST_CASE("reroute: after any losses, and returns, a sound layout or a wait", "[stage][fast]") {
  rng draw{12};
  reroute policy{3};
  stage::layout now = arranged(policy, newcomers(layers, micro_batches, 12));
  for (int change = 0; change < 300; ++change) {
    std::vector<std::uint64_t> gone;
    for (const std::uint64_t id : now.assigned()) {
      if (draw.below(6) == 0) gone.push_back(id);
    }
    auto g = after_losing(now, layers, micro_batches, gone);
    std::set<std::uint64_t> ids;
    for (const auto& p : g.peers) ids.insert(p.id);
    for (std::uint64_t id = 1; id <= 12; ++id) {
      if (!ids.contains(id) && draw.below(5) == 0) g.peers.push_back({id, {}});
    }
    g = snapshot_of(layers, micro_batches, std::move(g.peers));
    const auto made = policy.arrange(g);
    if (!made) {
      CHECK(g.peers.size() < 3);
      now = arranged(policy, newcomers(layers, micro_batches, 12));
      continue;
    }
    const auto sound = made->check(layers, micro_batches);
    INFO((sound ? std::string{} : sound.error().text()));
    REQUIRE(sound);
    if (made->has_unassigned()) CHECK(policy.order(*made));
    now = *made;
  }
}

}  // namespace causeway
