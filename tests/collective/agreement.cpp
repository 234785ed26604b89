// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/agreement.hpp>

#include "collective/peers.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <string>

using namespace causeway;
using namespace causeway::collective;

TEST_CASE("agreement: everybody hears who holds something else", "[collective][fast]") {
  const std::uint32_t n = GENERATE(1U, 2U, 3U, 8U);
  const net::peer_index other = GENERATE(net::peer_index{1}, net::peer_index{7}, net::peer_index{99});
  net::memory_network network{n, {.kept_bytes = 0}};
  const auto outcomes = peers::run(network, [&](net::memory_transport& t) {
    const std::uint64_t own = t.self() == other ? 5 : 4;
    return all_equal(t, peers::some_id, own, "starts from other parameters", {.deadline = peers::soon()});
  });
  CHECK(peers::all_succeeded(outcomes) == (other >= n));
  for (net::peer_index p = 0; p < n && other < n; ++p) {
    REQUIRE_FALSE(outcomes[p].has_value());
    CHECK(outcomes[p].error().code == errc::diverged);
    const net::peer_index named = p == other ? 0 : other;  // the first that differs from what it holds itself
    CHECK(outcomes[p].error().text() == "peer " + std::to_string(named) + ": starts from other parameters [diverged]");
  }
}
