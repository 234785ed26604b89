// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/swarm/swarm_balance.hpp>

#include <chrono>
#include <vector>

#include "support/catch.hpp"

namespace causeway::parallel {

using stages = std::vector<std::vector<balanced_peer>>;

TEST_CASE("swarm balance: the slowest peer of the idle stage goes where queues are longest", "[parallel][fast]") {
  const stages s{{{1, 1, 0.1}, {2, 3, 0.1}, {3, 2, 0.1}}, {{4, 1, 5}}, {{5, 1, 1}, {6, 9, 1}}};
  const auto move = choose_move(s, 1);
  REQUIRE(move);
  CHECK(move->who == 2);
  CHECK(move->to == 1);
}

TEST_CASE("swarm balance: no stage loses its last peer, and the coordinator stays", "[parallel][fast]") {
  CHECK_FALSE(choose_move(stages{{{1, 1, 0}}, {{2, 1, 9}}}, 1));
  const auto move = choose_move(stages{{{1, 9, 0, false}, {2, 1, 0}}, {{3, 1, 9}}}, 1);
  REQUIRE(move);
  CHECK(move->who == 2);
}

TEST_CASE("swarm balance: queues that differ little move nobody", "[parallel][fast]") {
  CHECK_FALSE(choose_move(stages{{{1, 1, 1}, {2, 1, 1}}, {{3, 1, 1.9}}}, 1));
  CHECK(choose_move(stages{{{1, 1, 1}, {2, 1, 1}}, {{3, 1, 2.1}}}, 1));
}

TEST_CASE("swarm balance: a stage that nobody serves comes first", "[parallel][fast]") {
  const stages s{{{1, 1, 9}, {2, 1, 9}}, {}};
  CHECK(most_loaded(s) == 1);
  const auto move = choose_move(s, 1);
  REQUIRE(move);
  CHECK(move->to == 1);
}

TEST_CASE("swarm balance: a queue is as long as it was when work began, also when nothing waits now", "[parallel][fast]") {
  queue_meter queue;
  queue.begin_turn();
  CHECK(queue.mean() == 0);
  for (const std::size_t waiting : {3U, 2U, 1U, 0U}) queue.began(waiting);
  CHECK(queue.mean() == 1.5);
  queue.begin_turn();
  CHECK(queue.mean() == 1.5);  // of the turn before, until something is begun
  queue.began(4);
  CHECK(queue.mean() == 4);
  queue.begin_turn();
  queue.begin_turn();
  CHECK(queue.mean() == 0);  // a turn without work
}

TEST_CASE("swarm balance: queues seen before peers changed are forgotten, and the next comparison waits",
          "[parallel][fast]") {
  using namespace std::chrono_literals;
  queue_watch watch;
  CHECK_FALSE(watch.due(time_point{0s}, 10s));
  watch.saw(1, 8);
  watch.looked();
  watch.changed(time_point{9s}, 10s);
  CHECK(watch.mean(1) == 0);
  CHECK_FALSE(watch.due(time_point{13s}, 10s));
  watch.changed(time_point{8s}, 10s);  // never sooner
  CHECK_FALSE(watch.due(time_point{13s}, 10s));
  CHECK(watch.due(time_point{14s}, 10s));
}

TEST_CASE("swarm balance: who was asked to move is asked again until it serves the other stage", "[parallel][fast]") {
  using namespace std::chrono_literals;
  stage_balance balance{2, 10s, 1};
  const serving_peer self{1, 0, 1, 0};
  std::vector<serving_peer> others{{2, 0, 1, 0}, {3, 1, 1, 9}};
  const auto look = [&](duration at) { return balance.look(time_point{at}, others, self); };
  CHECK_FALSE(look(1s));  // it is not time yet
  const auto first = look(20s);
  REQUIRE(first);
  CHECK(first->who == 2);
  CHECK(first->to == 1);
  CHECK_FALSE(first->again);
  const auto second = look(40s);
  REQUIRE(second);
  CHECK(second->who == 2);
  CHECK(second->again);
  others[0].stage = 1;
  CHECK_FALSE(look(60s));
}

}  // namespace causeway::parallel
