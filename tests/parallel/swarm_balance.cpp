// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/swarm_balance.hpp>

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

TEST_CASE("swarm balance: no stage loses its last peer, and the driver stays", "[parallel][fast]") {
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

}  // namespace causeway::parallel
