// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/history.hpp>

#include "support/catch.hpp"

#include <set>
#include <string>

using namespace causeway;
using namespace causeway::membership;

namespace {

event full_event() {
  event e;
  e.what = event::commit;
  e.at_time = {duration{-17}};
  e.peer = UINT64_MAX;
  e.from = 2;
  e.at = {3, 4};
  e.voted = {5, 6};
  e.round = 7;
  e.hash = 8;
  e.parent = 9;
  e.chain = 10;
  e.ledger = 11;
  e.members = {12, 13};
  e.contributions = {{12, 14}, {13, 0}};
  e.returned = {15};
  e.ranges = {{0, 3}, {9, 1}};
  e.text = "some words = and, signs";
  return e;
}

}  // namespace

TEST_CASE("history: each event is one line and is read back", "[membership][fast]") {
  for (int kind = 0; kind <= event::left; ++kind) {
    for (event e : {full_event(), event{}}) {
      e.what = static_cast<event::kind>(kind);
      const std::string line = to_line(e);
      CHECK(line.find('\n') == std::string::npos);
      const auto back = parse_event(line);
      REQUIRE(back);
      CHECK(*back == e);
    }
  }
}

TEST_CASE("history: lines can be read by people", "[membership][fast]") {
  event e;
  e.what = event::accept;
  e.at_time = {duration{1500}};
  e.peer = 3;
  e.at = {2, 1};
  e.round = 9;
  e.hash = 77;
  CHECK(to_line(e) == "1500 3 accept at=2:1 round=9 hash=77");
}

TEST_CASE("history: other lines are refused", "[membership][fast]") {
  for (const char* line :
       {"", "1", "1 2", "1 2 vanish", "x 2 boot", "1 x boot", "1 2 boot at=1", "1 2 boot at=1:2:3", "1 2 boot at=1:9999",
        "1 2 boot round=", "1 2 boot round=-1", "1 2 boot what=3", "1 2 commit members=1,,2", "1 2 commit members=1:2",
        "1 2 commit contributions=1,2", "1 2 commit ranges=1:2,", "1 2 boot round=99999999999999999999"}) {
    CHECK_FALSE(parse_event(line));
  }
}
