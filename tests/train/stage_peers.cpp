// SPDX-License-Identifier: Apache-2.0
#include <causeway/train/stage_peers.hpp>

#include <causeway/net/memory_transport.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;

namespace {

// Peers 1 and 2 of three hold the stages of a model, the later one first; peer 0 holds a whole one.
void on_stages(const std::function<void(std::uint32_t peer, stage_peers& stages)>& body,
               const std::vector<index_range>& copies = {}) {
  net::memory_network network{3};
  std::vector<std::thread> threads;
  for (std::uint32_t peer = 0; peer < 3; ++peer) {
    threads.emplace_back([&, peer] {
      net::any_transport transport{network.transport(peer)};
      stage_peers stages;
      if (peer > 0) stages.form(transport, {2, 1}, peer == 1 ? copies : std::vector<index_range>{});
      body(peer, stages);
    });
  }
  for (auto& t : threads) t.join();
}

}  // namespace

TEST_CASE("stage peers: sums are over the stages of one model, in their order and as often as they are asked for",
          "[train][fast]") {
  std::vector<std::array<double, 2>> sums(3);
  std::vector<double> later(3);
  on_stages([&](std::uint32_t peer, stage_peers& stages) {
    CHECK(stages.count() == (peer == 0 ? 1 : 2));
    CHECK(stages.is_first() == (peer != 1));
    sums[peer] = {peer == 1 ? 1e16 : 1.0, static_cast<double>(peer)};
    CHECK(stages.sum(sums[peer], {}));
    later[peer] = peer;
    CHECK(stages.sum(std::span{&later[peer], 1}, {}));
  });
  CHECK(sums[0] == std::array<double, 2>{1.0, 0.0});
  CHECK(sums[1] == sums[2]);
  CHECK(sums[1] == std::array<double, 2>{1.0 + 1e16, 3.0});
  CHECK(later == std::vector<double>{0, 3, 3});
}

TEST_CASE("stage peers: what another stage counts is left out of a row's squares", "[train][fast]") {
  thread_pool pool{1};
  const std::vector<float> row{1, 2, 4, 8, 16};
  on_stages(
      [&](std::uint32_t peer, stage_peers& stages) {
        const auto refused = stages.refuse_copies("policy", {});
        CHECK(refused.has_value() == (peer == 0));
        if (peer > 0) CHECK(refused.error().code == errc::unsupported);
        const std::vector<index_range> ranges{{10, 13}, {20, 22}};
        // 12 and 20 are copies at peer 1, and others that are not in the row
        CHECK(stages.squares(pool, row, ranges) == (peer == 1 ? 1.0 + 4 + 256 : 341.0));
        CHECK(stages.squares(pool, std::span{row}.first(1), std::vector<index_range>{{30, 31}}) == 1.0);
        CHECK(stages.squares(pool, {}, {}) == 0.0);
      },
      {{0, 5}, {12, 15}, {18, 21}});
}
