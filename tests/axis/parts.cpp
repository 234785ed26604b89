// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/parts.hpp>

#include <causeway/axis/every.hpp>
#include <causeway/axis/merge_rule.hpp>
#include <causeway/axis/residual.hpp>

#include "support/catch.hpp"

using namespace causeway;

TEST_CASE("parts: values are found by what they decide, in any order", "[axis][fast]") {
  using axis::part;
  STATIC_REQUIRE(std::is_same_v<axis::pick<part::trigger, axis::every, axis::delayed, axis::staggered>, axis::staggered>);
  STATIC_REQUIRE(
      std::is_same_v<axis::pick<part::merge_rule, axis::blocking, axis::delayed, axis::staggered>, axis::delayed>);
  STATIC_REQUIRE(std::is_same_v<axis::pick<part::residual, axis::no_residual, axis::delayed>, axis::no_residual>);
  std::tuple values{axis::delayed{3, 0.25F}, axis::every{7}};
  CHECK(axis::take<part::trigger, axis::every>(values).local_steps == 7);
  CHECK(axis::take<part::merge_rule, axis::delayed>(values).steps == 3);
  CHECK(axis::take<part::residual, axis::error_feedback>(values).beta == 1.0F);
}

TEST_CASE("parts: strangers and doubles are noticed", "[axis][fast]") {
  STATIC_REQUIRE(axis::all_known<axis::every, axis::delayed>);
  STATIC_REQUIRE_FALSE(axis::all_known<axis::every, int>);
  STATIC_REQUIRE(axis::all_different<axis::every, axis::delayed>);
  STATIC_REQUIRE_FALSE(axis::all_different<axis::every, axis::staggered>);
}
