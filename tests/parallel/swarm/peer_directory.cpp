// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/swarm/peer_directory.hpp>

#include <chrono>

#include "support/catch.hpp"

namespace causeway::parallel {
namespace {

swarm_wire::status says(std::uint32_t stage, std::uint64_t step, std::uint32_t term = 0, bool coordinates = false) {
  swarm_wire::status s;
  s.stage = stage, s.serving = 1, s.turn = swarm_wire::training_turn(step), s.term = term,
  s.coordinates = coordinates ? 1 : 0;
  return s;
}

/// Peer 5, which knows 3 and 7 of stage 0 and 9 of stage 1.
peer_directory three_others() {
  peer_directory t{5, 2};
  for (const net::peer_id id : {3U, 7U, 9U}) {
    t.up(id, static_cast<net::peer_index>(id), "", time_point{});
    t.take(id, says(id == 9 ? 1 : 0, 4), time_point{});
  }
  return t;
}

}  // namespace

TEST_CASE("peer directory: the highest term coordinates, of equal ones the lower id, and only who serves",
          "[parallel][fast]") {
  peer_directory t = three_others();
  CHECK(t.coordinator(0).id == 0);
  CHECK(t.coordinator(2).id == 5);  // our own claim
  t.take(7, says(0, 4, 2, true), time_point{});
  CHECK(t.coordinator(2).id == 5);
  t.take(3, says(0, 4, 2, true), time_point{});
  CHECK(t.coordinator(2).id == 3);
  t.take(7, says(0, 4, 3, true), time_point{});
  CHECK(t.coordinator(2).id == 7);
  t.down(7);
  CHECK(t.coordinator(2).id == 3);
  CHECK(t.term() == 3);
}

TEST_CASE("peer directory: the first in line is the lowest serving peer of stage 0", "[parallel][fast]") {
  peer_directory t = three_others();
  CHECK_FALSE(t.first_in_line());
  t.down(3);
  CHECK(t.first_in_line());
}

TEST_CASE("peer directory: the barrier opens when every stage has told its sum, and the first word counts",
          "[parallel][fast]") {
  peer_directory t = three_others();
  t.remember(0, {4, 1.0});
  CHECK_FALSE(t.total(4));
  auto s = says(1, 4);
  s.sums[0] = {4, 2.0};
  t.take(9, s, time_point{});
  CHECK(t.total(4)->squares == 3.0);
  CHECK(t.has_sum(1, 4));
  s.sums[0] = {4, 2.5};
  t.take(9, s, time_point{});
  CHECK(t.total(4)->squares == 3.0);
  t.down(9);
  CHECK(t.total(4)->squares == 3.0);  // who waits has heard it
  CHECK_FALSE(t.has_sum(1, 4));       // but nobody has it now
}

TEST_CASE("peer directory: who has committed the exchange that a turn is for is through with it", "[parallel][fast]") {
  peer_directory t = three_others();
  const std::uint64_t turn = swarm_wire::training_turn(4);
  CHECK_FALSE(t.anybody_through(turn));
  auto s = says(1, 4);
  s.committed = 4;  // the steps before it
  t.take(9, s, time_point{});
  CHECK_FALSE(t.anybody_through(turn));
  s.committed = 5;
  t.take(9, s, time_point{});
  CHECK(t.anybody_through(turn));
  CHECK_FALSE(t.anybody_beyond(turn));
  t.down(9);
  CHECK_FALSE(t.anybody_through(turn));
  t.take(7, says(0, 5), time_point{});
  CHECK(t.anybody_through(turn));
}

TEST_CASE("peer directory: what stages are asked for is added up, and what somebody has committed is kept beside it",
          "[parallel][fast]") {
  peer_directory t = three_others();
  t.remember(0, {4, 1.0, {1.0, 2.0}});
  auto s = says(1, 4);
  s.sums[0] = {4, 2.0, {0.5, 0.25}};
  t.take(9, s, time_point{});
  CHECK((t.total(4)->asked == std::vector{1.5, 2.25}));
  CHECK_FALSE(t.decided(4));
  const std::uint64_t before = t.changes();
  s.decided = {4, 0.0, {3.0, 4.0}};
  t.take(9, s, time_point{});
  CHECK(t.changes() > before);  // who waits looks again
  CHECK((t.decided(4)->asked == std::vector{3.0, 4.0}));
  CHECK((t.total(4)->asked == std::vector{1.5, 2.25}));
  t.down(9);
  CHECK(t.decided(4));  // nobody takes that back
  CHECK_FALSE(t.decided(5));
}

TEST_CASE("peer directory: a delay is half a round trip, and nobody else can end it", "[parallel][fast]") {
  peer_directory t = three_others();
  const time_point begin{std::chrono::seconds{5}};
  t.echoed(9, peer_directory::mark_of(begin), begin);  // never asked
  CHECK(t.take_delays().list.empty());
  t.peers()[9].probed = begin;
  t.echoed(9, peer_directory::mark_of(begin) + 1, begin);
  t.echoed(7, peer_directory::mark_of(begin), begin);
  CHECK(t.take_delays().list.empty());
  t.echoed(9, peer_directory::mark_of(begin), begin + std::chrono::milliseconds{80});
  t.echoed(9, peer_directory::mark_of(begin), begin + std::chrono::seconds{80});  // once
  const auto measured = t.take_delays();
  REQUIRE(measured.list.size() == 1);
  CHECK(measured.list[0].to == 9);
  CHECK(measured.list[0].seconds == Approx(0.04));
  CHECK(t.take_delays().list.empty());  // told once
  t.tell_delays_again();
  CHECK(t.take_delays().list.size() == 1);
}

TEST_CASE("peer directory: who is steps behind sees it", "[parallel][fast]") {
  peer_directory t = three_others();
  CHECK_FALSE(t.left_behind(3));
  CHECK(t.left_behind(2));
  CHECK(t.anybody_beyond(1, swarm_wire::training_turn(3)));
  CHECK(t.anybody_beyond(1, swarm_wire::evaluation_turn(4, 7)));  // evaluations come before their step
  CHECK_FALSE(t.anybody_beyond(1, swarm_wire::training_turn(4)));
  CHECK_FALSE(t.anybody_beyond(swarm_wire::training_turn(4)));
  CHECK(t.beyond(9, swarm_wire::training_turn(3)));
  CHECK(t.reached(9, swarm_wire::training_turn(4)));
  CHECK_FALSE(t.beyond(9, swarm_wire::training_turn(4)));
  t.down(9);
  CHECK_FALSE(t.beyond(9, swarm_wire::training_turn(3)));
}

}  // namespace causeway::parallel
