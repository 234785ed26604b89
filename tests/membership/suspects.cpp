// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/blame.hpp>

#include "support/catch.hpp"

#include <causeway/core/rng.hpp>

#include <vector>

using namespace causeway;
using namespace causeway::membership;

using peers = std::vector<net::peer_id>;

TEST_CASE("suspects: who is in most complaints sits out", "[membership][fast]") {
  CHECK(explain({{1, 4}, {2, 4}, {3, 4}}, {4, 1, 2, 3}, 1) == peers{4});
  CHECK(explain({{4, 1}, {4, 2}, {4, 3}}, {1, 2, 3, 4}, 1) == peers{4});  // whose links all fail is it, whoever complains
  CHECK(explain({}, {1, 2}, 1).empty());
}

TEST_CASE("suspects: of a broken link the later peer sits out, however often both complain", "[membership][fast]") {
  CHECK(explain({{2, 3}}, {1, 2, 3}, 1) == peers{3});
  CHECK(explain({{2, 3}, {3, 2}, {2, 3}}, {1, 2, 3}, 1) == peers{3});
}

TEST_CASE("suspects: the leader is spared where another explains as much", "[membership][fast]") {
  CHECK(explain({{1, 3}}, {1, 2, 3}, 3) == peers{1});
  CHECK(explain({{1, 3}, {2, 3}}, {1, 2, 3}, 3) == peers{3});
}

TEST_CASE("suspects: who fails by itself sits out and explains its other complaints", "[membership][fast]") {
  CHECK(explain({{2, 2}, {2, 1}, {3, 2}}, {1, 2, 3}, 1) == peers{2});
  CHECK(explain({{2, 2}, {1, 3}}, {1, 2, 3}, 1) == peers{2, 3});
}

TEST_CASE("suspects: strangers are not blamed", "[membership][fast]") {
  CHECK(explain({{1, 9}, {8, 9}, {9, 9}}, {1, 2}, 1).empty());
}

TEST_CASE("suspects: what is left has no complaints, and every one who sits out is needed for that", "[membership][fast]") {
  rng draw{5};
  for (int i = 0; i < 2000; ++i) {
    const peers order{1, 2, 3, 4, 5, 6};
    std::vector<complaint> all;
    for (std::uint64_t k = draw.below(8); k > 0; --k) all.push_back({1 + draw.below(6), 1 + draw.below(6)});
    const peers out = explain(all, order, 1);
    for (const complaint& c : all) CHECK((contains(out, c.by) || contains(out, c.about)));
    for (const net::peer_id id : out) {
      CHECK(std::any_of(all.begin(), all.end(), [&](const complaint& c) { return c.by == id || c.about == id; }));
    }
  }
}
