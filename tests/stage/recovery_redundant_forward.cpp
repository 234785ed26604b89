// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/recovery_redundant_forward.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "cluster_snapshots.hpp"
#include "support/catch.hpp"

namespace causeway {
namespace {

using stage::recovery::redundant_forward;

// The peers of a layout after some are gone, in the middle of a step that all had begun.
stage::cluster_snapshot in_the_middle(const stage::layout& l, std::int64_t layers, std::uint32_t micro_batches,
                                      const std::vector<std::uint64_t>& gone, std::uint64_t name = 7) {
  auto g = after_losing(l, layers, micro_batches, gone);
  for (auto& p : g.peers) {
    stage::layout::place at;
    const stage::assignment* const assignment = l.find(p.id, &at);
    p.begun = {name, static_cast<std::uint32_t>(l.replicas.size()),
               static_cast<std::uint32_t>(l.replicas[at.replica].assignments.size()), static_cast<std::uint32_t>(at.rank),
               assignment->held()};
  }
  return g;
}

}  // namespace

TEST_CASE("redundant forward: every block is on two peers, the first stage on the last one", "[stage][fast]") {
  for (const std::int64_t stages : {2, 3, 4}) {
    const auto made = redundant_forward{stages}.arrange(newcomers(12, 4, static_cast<std::uint64_t>(stages)));
    REQUIRE(made);
    REQUIRE(made->check(12, 4));
    const auto& assignments = made->replicas[0].assignments;
    for (std::size_t s = 0; s < assignments.size(); ++s) {
      for (std::int64_t b = 0; b < 12; ++b) {
        const auto& next = assignments[stage::successor(s, assignments.size())].computes;
        const bool keeps = nn::model_part{assignments[s].computes}.holds(b) || nn::model_part{next}.holds(b);
        CHECK(assignments[s].holds(b) == keeps);
      }
    }
  }
  CHECK(redundant_forward{1}.arrange(newcomers(12, 4, 1))->replicas[0].assignments[0].held() ==
        std::vector<nn::block_range>{{0, 12}});
}

TEST_CASE("redundant forward: a step goes on where it was, with nobody in the place of who is lost", "[stage][fast]") {
  redundant_forward policy{4};
  const auto made = policy.arrange(newcomers(8, 5, 8)).value();
  const auto& assignments = made.replicas[1].assignments;
  for (std::size_t lost = 0; lost < 4; ++lost) {
    for (const bool another : {false, true}) {  // besides, one that is neither its shadow nor its successor
      std::vector<std::uint64_t> gone{assignments[lost].peer};
      if (another) gone.push_back(assignments[(lost + 2) % 4].peer);
      const auto g = in_the_middle(made, 8, 5, gone);
      CHECK(policy.resumes(g));
      auto want = made;
      for (auto& s : want.replicas[1].assignments) {
        if (std::find(gone.begin(), gone.end(), s.peer) != gone.end()) s.peer = stage::nobody, s.keeps.clear();
      }
      const auto on = policy.arrange(g);
      REQUIRE(on);
      CHECK(on->check(8, 5));
      CHECK(*on == want);
    }
    const auto both = in_the_middle(made, 8, 5, {assignments[lost].peer, assignments[stage::shadow_of(lost, 4)].peer});
    CHECK_FALSE(policy.resumes(both));
    const auto anew = policy.arrange(both);
    REQUIRE(anew);
    CHECK(anew->replicas.size() == 1);  // six peers make one pipeline of four
    CHECK_FALSE(anew->has_unassigned());
  }
}

TEST_CASE("redundant forward: between steps all are laid out anew", "[stage][fast]") {
  redundant_forward policy{3};
  const auto made = policy.arrange(newcomers(6, 4, 3)).value();
  for (const auto& lost : made.replicas[0].assignments) {
    const auto g = after_losing(made, 6, 4, {lost.peer});
    CHECK_FALSE(policy.resumes(g));
    const auto two = policy.arrange(g);  // whoever is lost: two peers have all three stages
    REQUIRE(two);
    REQUIRE(two->check(6, 4));
    CHECK(two->assigned().size() == 2);
    CHECK_FALSE(two->has_unassigned());
    auto more = g;
    more.peers.push_back({99, {}});
    CHECK(policy.arrange(more)->assigned().size() == 3);
  }
}

TEST_CASE("redundant forward: who has not begun that step is spare in it", "[stage][fast]") {
  redundant_forward policy{3};
  const auto made = policy.arrange(newcomers(6, 4, 3)).value();
  auto g = in_the_middle(made, 6, 4, {made.replicas[0].assignments[1].peer});
  auto other = g.peers[0];
  other.id = 50;
  other.begun.name = 8;  // of another layout, alone with it
  g.peers.push_back(other);
  g.peers.push_back({99, {}});
  const auto on = policy.arrange(g);
  REQUIRE(on);
  CHECK(policy.resumes(g));
  CHECK(on->find(50) == nullptr);
  CHECK(on->find(99) == nullptr);
  CHECK(on->assigned().size() == 2);
}

TEST_CASE("redundant forward: what peers say against each other is no step to go on with", "[stage][fast]") {
  redundant_forward policy{3};
  const auto made = policy.arrange(newcomers(6, 4, 6)).value();
  const auto good = in_the_middle(made, 6, 4, {made.replicas[0].assignments[1].peer});
  REQUIRE(policy.resumes(good));
  const auto refused = [&](auto&& change) {
    auto g = good;
    change(g.peers[0]);
    return !policy.resumes(g) && policy.arrange(g).has_value();
  };
  CHECK(refused([](auto& p) { p.begun.replicas = 3; }));
  CHECK(refused([](auto& p) { p.begun.replicas = UINT32_MAX; }));
  CHECK(refused([](auto& p) { p.begun.stages = 4; }));
  CHECK(refused([](auto& p) { p.begun.stage = (p.begun.stage + 1) % 3; }));
  CHECK(refused([](auto& p) { p.begun.stage = 3; }));
  CHECK(refused([](auto& p) { p.replica = 2; }));
  CHECK(refused([](auto& p) { p.computes = {5, 6}; }));
  CHECK(refused([](auto& p) { p.begun.keeps = {{4, 5}, {4, 6}}; }));
  CHECK_FALSE(refused([](auto&) {}));
}

}  // namespace causeway
