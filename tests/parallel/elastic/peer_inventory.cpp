// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic/peer_inventory.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/catch.hpp"
#include "support/conformance.hpp"

namespace causeway {
namespace {

const parallel::pipeline_agreement ours{77, 10, 8};

parallel::peer_inventory somebody() {
  return {{42, {{0, 3}, {5, 10}}, 2, {5, 9}, {1, 2, 3, 4, 5, 6, 7, 8}}, {3, false, 2.5}, 12};
}

}  // namespace

TEST_CASE("peer inventory: what a peer says comes back", "[parallel][fast]") {
  const auto all = parallel::decode_peer_inventory(parallel::encode(somebody(), 77), ours);
  REQUIRE(all);
  const stage::present_peer* const p = &all->peer;
  CHECK(p->id == 42);
  CHECK(p->replica == 2);
  CHECK(p->computes == nn::block_range{5, 9});
  CHECK((p->holds == somebody().peer.holds));
  CHECK((p->squares == somebody().peer.squares));
  CHECK(all->turn.evaluated == 3);
  CHECK_FALSE(all->turn.trains);
  CHECK(all->turn.last == 2.5);
  CHECK(all->storage == 12);
}

TEST_CASE("peer inventory: bytes that no encoder makes are refused", "[parallel][fast]") {
  const auto refused = [](auto&& change) {
    auto p = somebody();
    change(p.peer);
    return !parallel::decode_peer_inventory(parallel::encode(p, 77), ours);
  };
  CHECK_FALSE(refused([](auto&) {}));
  CHECK(refused([](auto& p) { p.holds[1].last = 11; }));
  CHECK(refused([](auto& p) { p.holds[0] = {3, 3}; }));
  CHECK(refused([](auto& p) { p.holds[1].first = 3; }));  // touches the first
  CHECK(refused([](auto& p) { p.holds[1] = {0, 2}; }));
  CHECK(refused([](auto& p) { p.computes = {5, 4}; }));
  CHECK(refused([](auto& p) { p.squares[3] = -1; }));
  CHECK(refused([](auto& p) { p.squares[3] = NAN; }));
  CHECK(refused([](auto& p) { p.squares.resize(11); }));
  const auto bytes = parallel::encode(somebody(), 77);
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    CHECK_FALSE(parallel::decode_peer_inventory(std::span{bytes}.first(n), ours));
  }
  CHECK(parallel::decode_peer_inventory(parallel::encode(somebody(), 76), ours).error().code == errc::wrong_model);
}

TEST_CASE("peer inventory: that a peer leaves comes back, or is refused", "[parallel][fast]") {
  auto m = somebody();
  CHECK_FALSE(parallel::decode_peer_inventory(parallel::encode(m, 77), ours)->peer.leaves);
  m.peer.leaves = true;
  auto bytes = parallel::encode(m, 77);
  CHECK(parallel::decode_peer_inventory(bytes, ours)->peer.leaves);
  const auto stays = parallel::encode(somebody(), 77);
  const auto differs = std::mismatch(bytes.begin(), bytes.end(), stays.begin()).first;
  *differs = std::byte{2};
  CHECK_FALSE(parallel::decode_peer_inventory(bytes, ours));
}

TEST_CASE("peer inventory: what a peer has begun of a step comes back, or is refused", "[parallel][fast]") {
  auto m = somebody();
  m.peer.begun = {99, 3, 4, 1, {{0, 2}, {5, 10}}};
  CHECK(parallel::decode_peer_inventory(parallel::encode(m, 77), ours)->peer.begun == m.peer.begun);
  const auto refused = [&](auto&& change) {
    auto p = m;
    change(p.peer.begun);
    return !parallel::decode_peer_inventory(parallel::encode(p, 77), ours);
  };
  CHECK(refused([](auto& b) { b.replicas = 2; }));  // it is in the third
  CHECK(refused([](auto& b) { b.stage = 4; }));
  CHECK(refused([](auto& b) { b.stages = 11; }));  // more than blocks
  CHECK(refused([](auto& b) { b.keeps[1].last = 11; }));
  CHECK(refused([](auto& b) { b.keeps[1].first = 2; }));  // touches the first
  CHECK_FALSE(refused([](auto& b) { b.keeps.clear(); }));
  const auto bytes = parallel::encode(m, 77);
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    CHECK_FALSE(parallel::decode_peer_inventory(std::span{bytes}.first(n), ours));
  }
}

TEST_CASE("peer inventory: all peers know the same, by rising id", "[parallel][fast]") {
  std::vector<parallel::cluster_inventory> all(3);
  support::run_cluster(3, [&](std::uint32_t p, environment env) {
    const parallel::peer_inventory own{{100 - 10 * std::uint64_t{p}, {{0, 1 + std::int64_t{p}}}}, {p, false}};
    all[p] = parallel::gather_inventory(env.transport, {.channel = 96}, own, ours, {}).value();
  });
  for (std::uint32_t p = 0; p < 3; ++p) {
    REQUIRE(all[p].snapshot.peers.size() == 3);
    CHECK(all[p].snapshot.peers[0].id == 80);
    CHECK(all[p].snapshot.peers[2].holds[0].last == 1);
    CHECK((all[p].index_of == std::vector<net::peer_index>{2, 1, 0}));
    CHECK(all[p].self == 2 - p);
    CHECK(all[p].turns[0].evaluated == 2);
  }
}

}  // namespace causeway
