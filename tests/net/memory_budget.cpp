// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/memory_budget.hpp>

#include "support/catch.hpp"

using causeway::net::detail::memory_budget;

TEST_CASE("memory_budget: counts what was taken and not given back", "[net][fast]") {
  memory_budget budget{100};
  budget.take(60);
  CHECK_FALSE(budget.exceeded(40));
  CHECK(budget.exceeded(41));
  CHECK_FALSE(budget.exceeded(141, 2));
  CHECK(budget.exceeded(142, 2));
  budget.give(60);
  CHECK(budget.used() == 0);
  CHECK_FALSE(memory_budget{}.exceeded(1U << 30U));
}
