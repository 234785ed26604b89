// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/attendance.hpp>

#include "membership/cluster.hpp"
#include "membership/nemesis.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace causeway;
using namespace causeway::test;
using namespace std::chrono_literals;
using membership::detail::peer_table;
using membership::detail::roll_call;

namespace {

time_point at(duration since) { return time_point{since}; }

}  // namespace

TEST_CASE("roll call: who has not answered when it is due, or let a call pass, is left out", "[membership][fast]") {
  cluster c{1, {}};
  host& h = c.add();
  peer_table t{options{}, fresh_record(9, 100), h};
  t.entry(200).heard = at(10'200ms);
  t.entry(300).heard = at(10'900ms);
  roll_call calls{1s};
  calls.called(at(10s));
  calls.answered(at(10'050ms));
  calls.called(at(11s));
  t.now = at(11'300ms);
  CHECK(calls.due() == at(11'500ms));
  CHECK(calls.owes_answer(t, {100, 300, 200}) == 300);
  CHECK_FALSE(calls.is_overdue(t, 300));
  t.entry(300).heard = at(11'300ms);
  t.now = at(11'500ms);
  CHECK(calls.owes_answer(t, {100, 300, 200}) == 200);
  CHECK(calls.is_overdue(t, 200));
  CHECK_FALSE(calls.has_missed(t, 200));
  CHECK_FALSE(calls.is_overdue(t, 300));
  calls.called(at(12s));
  CHECK(calls.has_missed(t, 200));
  CHECK_FALSE(calls.is_overdue(t, 300));
  CHECK_FALSE(calls.is_overdue(t, 100));  // ourselves
}

namespace {

/// How long eight peers take to their next commit, when one of them loses its power so long after the last one.
double next_commit_after(double moment) {
  options o;
  o.run = 9;
  o.expected = 8;
  o.quota = 100;
  cluster c{5, o};
  c.restart_after = 0;
  c.training_time = 10;  // more or less: some are ready seconds before the others
  start(c, 8);
  REQUIRE(c.run_until_true(120, [&] { return c.newest >= 3; }));
  const time_point from = c.now;
  const auto goal = c.newest + 1;
  c.run_for(moment);
  for (std::size_t i = 0; i < 7; ++i) c.between(i, 7).cut = true;
  if (c.newest >= goal) return 0;
  REQUIRE(c.run_until_true(60, [&] { return c.newest >= goal; }));
  REQUIRE(c.violation.empty());
  return seconds(c.now - from);
}

}  // namespace

TEST_CASE("roll call: who loses its power before an attempt seldom holds it up", "[membership][fast]") {
  int held_up = 0;
  for (int quarter = 32; quarter < 56; ++quarter) held_up += next_commit_after(0.25 * quarter) > 16 ? 1 : 0;
  CHECK(held_up <= 4);  // half of them, if nobody looks who still answers
}
