// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/barrier.hpp>

#include "collective/peers.hpp"
#include "support/catch.hpp"

#include <atomic>

using namespace causeway;
using namespace causeway::collective;

TEST_CASE("barrier: nobody leaves before everybody has come", "[collective][fast]") {
  const std::uint32_t n = GENERATE(1U, 2U, 3U, 4U, 5U, 8U);
  net::memory_network network{n, {.kept_bytes = 0}};
  std::atomic<std::uint32_t> came{0};
  std::atomic<bool> early{false};
  const auto outcomes = peer_threads::run(network, [&](net::memory_transport& t) -> result<void> {
    for (std::uint32_t round = 1; round <= 20; ++round) {
      ++came;
      CAUSEWAY_TRY(barrier(t, {.channel = 32, .step = round}, {.deadline = peer_threads::soon()}));
      if (came < round * n) early = true;
    }
    return {};
  });
  CHECK(peer_threads::all_succeeded(outcomes));
  CHECK_FALSE(early);
}

TEST_CASE("barrier: ceil(log2 n) empty messages a peer", "[collective][fast]") {
  for (const auto& [n, messages] : {std::pair{1U, 0U}, {2U, 1U}, {3U, 2U}, {4U, 2U}, {5U, 3U}, {8U, 3U}}) {
    net::memory_network network{n};
    std::vector<traffic> counted(n);
    (void)peer_threads::run(network, [&](net::memory_transport& t) {
      const auto outcome = barrier(t, peer_threads::some_id, {.deadline = peer_threads::soon()});
      counted[t.self()] = t.stats();
      return outcome;
    });
    for (const traffic& c : counted) {
      CHECK(c.frames_sent == messages);
      CHECK(c.bytes_sent == messages * 64);
    }
  }
}

TEST_CASE("barrier: a missing peer is reported as lost or late, never waited for beyond the deadline",
          "[collective][fast]") {
  net::memory_network network{3};
  const auto outcomes = peer_threads::run(network, [&](net::memory_transport& t) -> result<void> {
    if (t.self() == 1) return fail(errc::cancelled, "test", "did not come");
    return barrier(t, peer_threads::some_id, {.deadline = peer_threads::soon()});
  });
  for (const auto& outcome : outcomes) CHECK_FALSE(outcome);
  CHECK((outcomes[0].error().code == errc::peer_lost || outcomes[2].error().code == errc::peer_lost));
}

TEST_CASE("barrier: when any operation fails, all peers return", "[collective][fast]") {
  for (std::uint64_t n = 0; n < 4; ++n) {
    net::memory_network network{3};
    network.fail_at(1, n, errc::io_failed);
    const auto outcomes = peer_threads::run(network, [&](net::memory_transport& t) {
      return barrier(t, peer_threads::some_id, {.deadline = peer_threads::soon()});
    });
    CHECK_FALSE(outcomes[1]);
  }
}
