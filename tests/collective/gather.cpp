// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/gather.hpp>

#include "collective/peers.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

using namespace causeway;
using namespace causeway::collective;

namespace {

using bytes = std::vector<std::byte>;

/// Peer p's bytes: `base` of them, and p more.
bytes bytes_of(net::peer_index p, std::size_t base) { return bytes(base + p, static_cast<std::byte>(p + 1)); }

std::vector<bytes> everybodys(std::uint32_t n, std::size_t base) {
  std::vector<bytes> all;
  for (net::peer_index p = 0; p < n; ++p) all.push_back(bytes_of(p, base));
  return all;
}

}  // namespace

TEST_CASE("gather: the root has everybody's bytes, of unequal lengths", "[collective][fast]") {
  const std::uint32_t n = GENERATE(1U, 2U, 3U, 4U, 5U, 8U);
  const std::size_t base = GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{100003});
  const net::peer_index root = n / 2;
  net::memory_network network{n, {.kept_bytes = 0}};
  std::vector<std::vector<bytes>> all(n);
  std::vector<traffic> counted(n);
  const auto outcomes = peer_threads::run(network, [&](net::memory_transport& t) {
    const auto mine = bytes_of(t.self(), base);
    const auto outcome =
        gather(t, peer_threads::some_id, root, mine, base + n, all[t.self()], {.deadline = peer_threads::soon()});
    counted[t.self()] = t.stats();
    return outcome;
  });
  REQUIRE(peer_threads::all_succeeded(outcomes));
  for (net::peer_index p = 0; p < n; ++p) {
    CHECK(all[p] == (p == root ? everybodys(n, base) : std::vector<bytes>{}));
    CHECK(counted[p].bytes_sent == (p == root ? 0 : 2 * 64 + 8 + base + p));
  }
}

TEST_CASE("all-gather: everybody has everybody's bytes, of unequal lengths", "[collective][fast]") {
  const std::uint32_t n = GENERATE(1U, 2U, 3U, 4U, 5U, 8U);
  const std::size_t base = GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{100003});
  net::memory_network network{n, {.kept_bytes = 0}};
  std::vector<std::vector<bytes>> all(n);
  std::vector<traffic> counted(n);
  const auto outcomes = peer_threads::run(network, [&](net::memory_transport& t) {
    const auto mine = bytes_of(t.self(), base);
    const auto outcome =
        all_gather(t, peer_threads::some_id, mine, base + n, all[t.self()], {.deadline = peer_threads::soon()});
    counted[t.self()] = t.stats();
    return outcome;
  });
  REQUIRE(peer_threads::all_succeeded(outcomes));
  for (net::peer_index p = 0; p < n; ++p) {
    CHECK(all[p] == everybodys(n, base));
    CHECK(counted[p].bytes_sent == (n - 1) * (2 * 64 + 8 + base + p));
  }
}

TEST_CASE("all-gather: parts of equal length, also from the peer's own place", "[collective][fast]") {
  const std::uint32_t n = GENERATE(1U, 2U, 3U, 4U, 5U, 8U);
  const std::size_t size = GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{1000}, std::size_t{100003});
  const bool in_place = GENERATE(false, true);
  net::memory_network network{n, {.kept_bytes = 0}};
  std::vector<bytes> all(n, bytes(n * size));
  const auto outcomes = peer_threads::run(network, [&](net::memory_transport& t) {
    bytes mine(size, static_cast<std::byte>(t.self() + 1));
    bytes& room = all[t.self()];
    const auto own_place = std::span{room}.subspan(t.self() * size, size);
    std::copy(mine.begin(), mine.end(), own_place.begin());
    const std::span<const std::byte> from = in_place ? std::span<const std::byte>{own_place} : mine;
    return all_gather(t, peer_threads::some_id, from, room, {.deadline = peer_threads::soon()});
  });
  REQUIRE(peer_threads::all_succeeded(outcomes));
  bytes expected;
  for (net::peer_index p = 0; p < n; ++p) expected.insert(expected.end(), size, static_cast<std::byte>(p + 1));
  for (const bytes& got : all) CHECK(got == expected);
}

TEST_CASE("gather: a peer that offers more than the limit is named, and nothing is reserved for it", "[collective][fast]") {
  net::memory_network network{2};
  std::vector<bytes> all;
  const auto outcomes = peer_threads::run(network, [&](net::memory_transport& t) {
    // Peer 1 allows itself more than the root does: what a hostile peer would do.
    return gather(t, peer_threads::some_id, 0, bytes(t.self() == 0 ? 1 : 5000), t.self() == 0 ? 100 : 5000, all,
                  {.deadline = peer_threads::soon()});
  });
  CHECK(outcomes[0].error().code == errc::too_large);
  CHECK(outcomes[0].error().where == "peer 1");
  CHECK(all[1].capacity() == 0);
}

TEST_CASE("gather: bytes beyond the caller's own limit are refused before anything is sent", "[collective][fast]") {
  net::memory_network network{2};
  auto end = network.transport(0);
  std::vector<bytes> all;
  CHECK(gather(end, peer_threads::some_id, 1, bytes(101), 100, all).error().code == errc::too_large);
  CHECK(network.operations(0) == 0);
}

TEST_CASE("all-gather: when any operation of any peer fails, all peers return, and none succeeds wrongly",
          "[collective][fast]") {
  const net::peer_index victim = GENERATE(0U, 2U);
  const bool kill = GENERATE(false, true);
  std::vector<std::vector<bytes>> all(3);
  const auto attempt = [&](const net::memory_network& network) {
    return peer_threads::run(network, [&](net::memory_transport& t) {
      const auto mine = bytes_of(t.self(), 100);
      return all_gather(t, peer_threads::some_id, mine, 200, all[t.self()], {.deadline = peer_threads::soon()});
    });
  };
  net::memory_network whole{3, {.kept_bytes = 0}};
  REQUIRE(peer_threads::all_succeeded(attempt(whole)));
  for (std::uint64_t n = 0; n < whole.operations(victim); ++n) {
    net::memory_network network{3, {.kept_bytes = 0}};
    if (kill) network.kill_at(victim, n);
    if (!kill) network.fail_at(victim, n, errc::io_failed);
    const auto outcomes = attempt(network);
    CHECK_FALSE(outcomes[victim]);
    for (net::peer_index p = 0; p < 3; ++p) {
      if (outcomes[p]) CHECK(all[p] == everybodys(3, 100));
    }
  }
}

TEST_CASE("agreement: everybody hears who holds something else", "[collective][fast]") {
  const std::uint32_t n = GENERATE(1U, 2U, 3U, 8U);
  const net::peer_index other = GENERATE(net::peer_index{1}, net::peer_index{7}, net::peer_index{99});
  net::memory_network network{n, {.kept_bytes = 0}};
  const auto outcomes = peer_threads::run(network, [&](net::memory_transport& t) {
    const std::uint64_t own = t.self() == other ? 5 : 4;
    return all_equal(t, peer_threads::some_id, own, "starts from other parameters", {.deadline = peer_threads::soon()});
  });
  CHECK(peer_threads::all_succeeded(outcomes) == (other >= n));
  for (net::peer_index p = 0; p < n && other < n; ++p) {
    REQUIRE_FALSE(outcomes[p].has_value());
    CHECK(outcomes[p].error().code == errc::diverged);
    const net::peer_index named = p == other ? 0 : other;  // the first that differs from what it holds itself
    CHECK(outcomes[p].error().text() == "peer " + std::to_string(named) + ": starts from other parameters [diverged]");
  }
}
