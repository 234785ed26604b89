// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/epochs.hpp>

#include "support/catch.hpp"

using namespace causeway::net;

TEST_CASE("epochs: those of views and lasting ones end apart", "[net][fast]") {
  past_epochs past;
  CHECK_FALSE(past.contains(0));
  CHECK_FALSE(past.contains(first_lasting_epoch));
  CHECK(past.end_before(5));
  CHECK_FALSE(past.end_before(5));
  CHECK_FALSE(past.end_before(4));
  CHECK(past.contains(4));
  CHECK_FALSE(past.contains(5));
  CHECK_FALSE(past.contains(lasting_epoch(0)));

  CHECK(past.end_before(lasting_epoch(3)));
  CHECK(past.contains(lasting_epoch(2)));
  CHECK_FALSE(past.contains(lasting_epoch(3)));
  CHECK_FALSE(past.contains(5));
  CHECK(past.ends()[0] == 5);
  CHECK(past.ends()[1] == lasting_epoch(3));
}

TEST_CASE("epochs: the rounds of a long run stay among the lasting ones", "[net][fast]") {
  CHECK(lasting_epoch(1) == first_lasting_epoch + 1);
  CHECK(lasting_epoch((std::uint64_t{1} << 40U) + 7) == first_lasting_epoch + 7);
  CHECK(past_epochs{lasting_epoch(9)}.contains(lasting_epoch(8)));
}
