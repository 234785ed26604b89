// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/history.hpp>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::membership;

TEST_CASE("history: every kind of event, as a line and back", "[membership][fast]") {
  for (int kind = event::boot; kind <= event::left; ++kind) {
    event e;
    e.what = static_cast<event::kind>(kind);
    e.at_time = time_point{duration{123456789}};
    e.peer = 42;
    e.from = 43;
    e.at = {3, 4};
    e.round = 5;
    e.hash = ~std::uint64_t{0};
    e.parent = 6;
    e.chain = 7;
    e.ledger = 8;
    e.members = {42, 43};
    e.contributions = {{42, 9}, {43, 10}};
    e.returned = {44};
    e.ranges = {{0, 5}, {20, 1}};
    e.text = "two words and = signs";
    const std::string line = to_line(e);
    CHECK(line.find('\n') == std::string::npos);
    const auto back = parse_event(line);
    REQUIRE(back);
    CHECK(to_line(*back) == line);
    CHECK(back->members == e.members);
    CHECK(back->ranges == e.ranges);
    CHECK(back->text == e.text);
  }
}

TEST_CASE("history: other lines are refused", "[membership][fast]") {
  for (const auto* line :
       {"", "hello", "1 2", "1 2 flies", "1 2 commit round=x", "1 2 commit colour=3", "1 2 promise at=1"}) {
    INFO(line);
    CHECK(!parse_event(line));
  }
}
