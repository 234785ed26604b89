// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/recovery.hpp>

#include <cstdint>
#include <vector>

#include "cluster_snapshots.hpp"
#include "support/catch.hpp"

namespace causeway {
namespace {

using stage::cluster_snapshot;
using stage::layout;

}  // namespace

TEST_CASE("recovery: peers that hold a range already get it", "[stage][fast]") {
  const cluster_snapshot g = snapshot_of(4, 4, {{9, {{0, 2}}}, {5, {{2, 4}}}, {6, {{0, 2}}}, {2, {}}});
  const auto made = stage::recovery::regroup{2}.arrange(g);
  REQUIRE(made);
  REQUIRE(made->check(4, 4));
  REQUIRE(made->replicas.size() == 2);
  CHECK((made->holders(3) == std::vector<std::uint64_t>{5, 2}));  // the newcomer takes what nobody else has
  CHECK((made->holders(0) == std::vector<std::uint64_t>{6, 9}));
}

TEST_CASE("recovery: who was assigned a stage keeps it, so that nothing moves without a reason", "[stage][fast]") {
  cluster_snapshot g = snapshot_of(4, 4, {{1, {{0, 4}}}, {2, {{0, 4}}}, {3, {{0, 4}}}, {4, {{0, 4}}}});
  g.peers[0].computes = {2, 4}, g.peers[0].replica = 1;
  g.peers[1].computes = {0, 2}, g.peers[1].replica = 1;
  g.peers[2].computes = {2, 4}, g.peers[2].replica = 0;
  g.peers[3].computes = {0, 2}, g.peers[3].replica = 0;
  const auto made = stage::recovery::regroup{2}.arrange(g);
  REQUIRE(made);
  for (const auto& p : g.peers) {
    layout::place at;
    const auto* assignment = made->find(p.id, &at);
    REQUIRE(assignment != nullptr);
    CHECK(assignment->computes == p.computes);
    CHECK(at.replica == p.replica);
  }
}

TEST_CASE("recovery: too few peers is an error that says how many it takes", "[stage][fast]") {
  const auto made = stage::recovery::regroup{3}.arrange(snapshot_of(6, 4, {{1, {{0, 6}}}, {2, {}}}));
  REQUIRE_FALSE(made);
  CHECK(made.error().code == errc::out_of_memory);
  CHECK(made.error().message.find("2 peers cannot hold the model, it takes 3") == 0);
  CHECK(stage::recovery::regroup{7}.arrange(snapshot_of(6, 4, {{1, {}}})).error().code == errc::invalid_argument);
}

TEST_CASE("recovery: never more pipelines than micro-batches", "[stage][fast]") {
  const auto made = stage::recovery::regroup{1}.arrange(snapshot_of(2, 2, {{1, {}}, {2, {}}, {3, {}}}));
  REQUIRE(made);
  CHECK(made->replicas.size() == 2);
  CHECK(made->check(2, 2));
}

TEST_CASE("recovery: who leaves has no work, unless the others cannot do without it", "[stage][fast]") {
  stage::recovery::regroup two{2};
  auto g = snapshot_of(4, 4, {{1, {{0, 2}}}, {2, {{2, 4}}}, {3, {}}});
  CHECK(stage::assignable(two, g).peers.size() == 3);
  g.peers[1].leaves = true;
  const auto left = stage::assignable(two, g);
  REQUIRE(left.peers.size() == 2);
  const auto made = two.arrange(left);
  REQUIRE(made);
  CHECK(made->find(2) == nullptr);
  CHECK(made->check(4, 4));
  g.peers[2].leaves = true;  // one is left, which is too few
  CHECK(stage::assignable(two, g).peers.size() == 3);
}

TEST_CASE("recovery: squared norms are found by block", "[stage][fast]") {
  stage::present_peer p{1, {{0, 2}, {4, 5}}, 0, {}, {1.0, 2.0, 3.0}};
  CHECK(p.squares_of(1) == 2.0);
  CHECK(p.squares_of(4) == 3.0);
  CHECK(p.squares_of(3) == 0.0);
  p.squares.clear();
  CHECK(p.squares_of(4) == 0.0);
}

}  // namespace causeway
