// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic/exchange_arrivals.hpp>

#include <causeway/collective/channels.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "support/catch.hpp"
#include "support/cluster.hpp"

using namespace causeway;

TEST_CASE("exchange arrivals: who still trains sees who has come, and all learn who is furthest", "[parallel][fast]") {
  support::run_cluster(3, [](std::uint32_t peer, environment env) {
    parallel::exchange_arrivals all;
    all.begin(env.transport, {.channel = collective::channels::state, .step = 1});
    const time_point end = env.clock.now() + std::chrono::seconds{20};
    if (peer == 0) {
      while (!all.any() && env.clock.now() < end) {
      }
      CHECK(all.any());
    }
    if (peer == 1) CHECK_FALSE(all.any());  // who rests has come, but nobody who trains
    const auto most = all.meet(peer == 2 ? 9 : 4 + peer, peer == 1, end);
    REQUIRE(most);
    CHECK(*most == 9);
  });
}

TEST_CASE("exchange arrivals: a word of another length names its peer", "[parallel][fast]") {
  support::run_cluster(2, [](std::uint32_t peer, environment env) {
    const net::message_id id{.channel = collective::channels::state, .step = 1};
    const time_point end = env.clock.now() + std::chrono::seconds{20};
    if (peer == 1) {
      const std::byte one{};
      CHECK(env.transport.wait(env.transport.send(0, id, std::span{&one, 1}), end));
      return;
    }
    parallel::exchange_arrivals all;
    all.begin(env.transport, id);
    const auto outcome = all.meet(1, true, end);
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == errc::protocol);
    CHECK(outcome.error().text().find("peer 1") != std::string::npos);
  });
}
