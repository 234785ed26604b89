// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/pairs.hpp>

#include <set>
#include <vector>

#include "collective/peers.hpp"
#include "support/catch.hpp"

using namespace causeway::collective;
using namespace peer_threads;

TEST_CASE("pairs: everybody has a partner whose partner it is; of an odd number one has none", "[collective][fast]") {
  for (const std::uint32_t count : {1U, 2U, 7U, 10U}) {
    CAPTURE(count);
    std::set<peer_index> firsts;
    for (std::uint64_t round = 0; round < 50; ++round) {
      const causeway::rng draw{5, round};
      std::uint32_t left_over = 0;
      for (peer_index p = 0; p < count; ++p) {
        const auto partner = partner_of(p, count, draw);
        if (!partner) {
          ++left_over;
          continue;
        }
        CHECK(*partner != p);
        CHECK(partner_of(*partner, count, draw) == p);
        if (p == 0) firsts.insert(*partner);
      }
      CHECK(left_over == count % 2);
    }
    CHECK(firsts.size() == count - 1);  // in 50 rounds the first peer has met all others
  }
}

TEST_CASE("pairs: two peers hold the mean of both", "[collective][fast]") {
  std::vector<std::vector<float>> rows{{1, 2, 3}, {3, 2, 1}};
  const auto outcomes = run(memory_network{2}, [&](memory_transport& end) {
    causeway::net::any_transport mine{std::move(end)};
    std::vector<float> received(3);
    const auto self = mine.self();
    return average_pair(mine, 1 - self, some_id, rows[self], received, soon());
  });
  REQUIRE(all_succeeded(outcomes));
  CHECK(rows[0] == std::vector<float>{2, 2, 2});
  CHECK(rows[1] == rows[0]);
}
