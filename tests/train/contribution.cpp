// SPDX-License-Identifier: Apache-2.0
#include <causeway/train/contribution.hpp>

#include "support/catch.hpp"

using causeway::detail::contribution;

TEST_CASE("contribution: everything is for the next exchange, unless its row is made already", "[train][fast]") {
  contribution c;
  c.add(6);
  CHECK(c.all() == 6);
  CHECK(c.later() == 0);
  c.close();
  c.add(2);
  CHECK(c.all() == 8);
  CHECK(c.later() == 2);
  c.committed(6);  // the row of the first six
  CHECK(c.all() == 2);
  CHECK(c.later() == 2);
  c.close();
  CHECK(c.later() == 0);
  c.add(1);
  c.open();
  CHECK(c.later() == 0);
  CHECK(c.all() == 3);
}

TEST_CASE("contribution: of what is counted next this peer may have trained a part", "[train][fast]") {
  contribution c;
  c.takes_part(2);
  c.add(8);
  CHECK(c.all() == 2);
  c.add(8);  // all of it
  CHECK(c.all() == 10);
  CHECK(c.ever() == 10);
  c.takes_part(0);
  c.add(8);
  CHECK(c.all() == 10);
}

TEST_CASE("contribution: what is given up is in no exchange", "[train][fast]") {
  contribution c;
  c.add(4);
  c.close();
  c.add(3);
  c.give_up();
  CHECK(c.all() == 0);
  CHECK(c.later() == 0);
  c.add(2);
  CHECK(c.later() == 2);  // the row that is made already may still go out
  c.committed(9);
  CHECK(c.all() == 0);
}

TEST_CASE("contribution: who has nothing to train from draws nothing, but not for ever", "[train][fast]") {
  contribution c;
  CHECK_FALSE(c.paused());
  c.pause();
  CHECK(c.paused());
  c.resume();
  CHECK_FALSE(c.paused());
  c.pause();
  for (int round = 0; round < 7; ++round) c.passed();
  c.pause();  // it has paused already
  CHECK(c.paused());
  c.passed();
  CHECK_FALSE(c.paused());
}

TEST_CASE("contribution: how many samples make a round is the policy's, what was trained stays counted", "[train][fast]") {
  contribution c;
  CHECK(c.round_samples() == 0);
  c.gather(40);
  CHECK(c.round_samples() == 40);
  CHECK(c.gathers_gradients());
  c.gather(40, true);
  CHECK_FALSE(c.gathers_gradients());
  c.add(3);
  c.committed(3);
  c.add(2);
  CHECK(c.ever() == 5);
  c.give_up();
  CHECK(c.ever() == 5);
}
