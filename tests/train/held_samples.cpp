// SPDX-License-Identifier: Apache-2.0
#include <causeway/train/held_round.hpp>

#include "support/catch.hpp"

#include <cstdint>
#include <utility>
#include <vector>

using namespace causeway;
using namespace causeway::membership;

namespace {

ledger after(ledger l, std::vector<net::peer_id> members, std::vector<contribution> contributions,
             std::vector<net::peer_id> returned) {
  commit_record r;
  r.members = std::move(members);
  r.contributions = std::move(contributions);
  r.returned = std::move(returned);
  l.apply(r);
  return l;
}

}  // namespace

TEST_CASE("held_samples: numbers come in the ledger's order, and are remembered until they are committed",
          "[train][fast]") {
  const ledger l = after(ledger{6}, {7, 9}, {}, {});
  held_samples mine{9};
  mine.begin_round(l);
  CHECK(mine.draw(l, 0, 4) == std::vector<std::uint64_t>{6, 7, 8, 9});
  CHECK(mine.draw(l, 4, 4) == std::vector<std::uint64_t>{10, 11});
  CHECK(mine.draw(l, 6, 4).empty());
  CHECK(mine.drawn().size() == 6);
  CHECK_FALSE(mine.complete());
  const ledger next = after(l, {7, 9}, {{9, 6}}, {});
  mine.begin_round(next);
  CHECK(mine.draw(next, 0, 2) == std::vector<std::uint64_t>{12, 13});
  CHECK(mine.drawn().size() == 2);
}

TEST_CASE("held_samples: what a newer commit gave to others is not drawn", "[train][fast]") {
  const ledger l = after(ledger{6, 12}, {7, 9}, {}, {});
  held_samples mine{9};
  mine.begin_round(l);
  REQUIRE(mine.draw(l, 0, 2).size() == 2);
  const ledger without_us = after(l, {7}, {{7, 6}}, {});
  CHECK(mine.still_ours(without_us, 6));
  CHECK(mine.draw(without_us, 2, 2).size() == 2);  // a late peer goes on with what it has
  const ledger taken = after(without_us, {7}, {}, {9});
  CHECK_FALSE(mine.still_ours(taken, 1));
  CHECK(mine.draw(taken, 4, 2).empty());
  CHECK(mine.still_ours(taken, 0));
}
