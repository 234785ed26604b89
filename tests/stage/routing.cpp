// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/routing.hpp>

#include "support/catch.hpp"

namespace causeway::stage::routing {

TEST_CASE("routing: a roster keeps peers by id, and a peer serves one stage at a time", "[stage][fast]") {
  roster known{2};
  known.announced(9, 0);
  known.announced(3, 0);
  REQUIRE(known.at(0).size() == 2);
  CHECK(known.at(0)[0].id == 3);
  known.announced(9, 1);
  CHECK(known.at(0).size() == 1);
  CHECK(known.at(1)[0].id == 9);
  known.gone(9);
  CHECK(known.at(1).empty());
}

TEST_CASE("routing: an error bans a peer until its next announcement", "[stage][fast]") {
  roster known{1};
  known.announced(1, 0);
  known.measured(1, 2);
  known.ban(1);
  CHECK(known.usable(0).empty());
  known.announced(1, 0);
  REQUIRE(known.usable(0).size() == 1);
  CHECK(known.usable(0)[0].seconds == 2);  // what is known of it stays
}

TEST_CASE("routing: seconds are a moving average, and a peer without any is taken for the mean of its stage",
          "[stage][fast]") {
  roster known{1, 0.25};
  for (const net::peer_id id : {1U, 2U, 3U}) known.announced(id, 0);
  CHECK(known.expected_seconds(0, 3) == 1);
  known.measured(1, 4);
  known.measured(1, 8);
  known.measured(2, 1);
  CHECK(known.expected_seconds(0, 1) == 5);
  CHECK(known.expected_seconds(0, 3) == 3);
  known.measured(1, 0);  // nonsense
  CHECK(known.expected_seconds(0, 1) == 5);
}

}  // namespace causeway::stage::routing
