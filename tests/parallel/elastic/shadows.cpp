// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic/shadows.hpp>

#include <cstdint>
#include <utility>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;

TEST_CASE("shadows: a block goes from who computes it to those of the replica who keep it", "[parallel]") {
  parallel::pipeline_peer peer;
  peer.layout.replicas.push_back({{{9, {0, 6}}}, 1});
  peer.layout.replicas.push_back({{{1, {0, 2}, {{0, 4}}}, {2, {2, 4}, {{0, 6}}}, {3, {4, 6}}}, 3});
  peer.place = {1, 0};
  peer.index_of = {{9, 0}, {1, 4}, {2, 5}, {3, 6}};
  using copies = std::pair<std::vector<net::peer_index>, net::peer_index>;
  CHECK(parallel::copies_of(peer, 1) == copies{{4, 5}, 0});
  CHECK(parallel::copies_of(peer, 2) == copies{{4, 5}, 1});
  CHECK(parallel::copies_of(peer, 5) == copies{{5, 6}, 1});
  CHECK(parallel::copies_of_table(peer, 6) == copies{{4, 5, 6}, 0});  // of both ends, and who keeps one
  peer.place = {0, 0};
  CHECK(parallel::copies_of(peer, 5) == copies{{0}, 0});  // nobody keeps anything
}
