// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/schedules.hpp>

#include <causeway/plan/schedule_check.hpp>

#include <cstdint>

#include "support/catch.hpp"

namespace causeway::stage {
namespace {

template <class S>
void is_valid(const S& order, std::uint32_t ranks, std::uint32_t micro_batches) {
  CAPTURE(S::name, ranks, micro_batches);
  const auto s = order.make(ranks, micro_batches);
  REQUIRE(s);
  CHECK(s->ranks == ranks);
  CHECK(s->chunks == order.chunks());
  CHECK(s->path == path_of(order));
  CHECK(plan::check(*s));
}

}  // namespace

TEST_CASE("schedule types: each makes the schedule that it says", "[stage][fast]") {
  for (const std::uint32_t ranks : {1U, 2U, 4U}) {
    is_valid(gpipe{}, ranks, 8);
    is_valid(one_f_one_b{}, ranks, 8);
    is_valid(interleaved<2>{}, ranks, 8);
    is_valid(zero_bubble{}, ranks, 8);
    is_valid(zero_bubble_h2{}, ranks, 8);
    is_valid(zero_bubble_v{}, ranks, 8);
    is_valid(varuna{}, ranks, 8);
    is_valid(crosspipe{}, ranks, 8);
    is_valid(opportunistic<one_f_one_b>{}, ranks, 8);
  }
  for (const std::uint32_t ranks : {2U, 4U}) {
    is_valid(chimera{}, ranks, 8);
    is_valid(dual_pipe{}, ranks, 8);
  }
}

TEST_CASE("schedule types: numbers that cannot work are refused, not changed", "[stage][fast]") {
  CHECK_FALSE(interleaved<2>{}.make(4, 6));
  CHECK_FALSE(gpipe{}.make(0, 4));
  CHECK_FALSE(chimera{}.make(3, 4));
  CHECK_FALSE(dual_pipe{}.make(4, 6));
  CHECK_FALSE(varuna{plan::equal_costs(3)}.make(2, 4));
  CHECK_FALSE(crosspipe{plan::equal_costs(3)}.make(2, 4));
}

TEST_CASE("schedule types: only opportunistic ones leave room to run ahead", "[stage][fast]") {
  CHECK(one_f_one_b{}.room() == 0);
  CHECK(opportunistic<one_f_one_b>{}.room() == 4);
  CHECK(opportunistic<one_f_one_b>::order() == plan::run_order::opportunistic);
}

}  // namespace causeway::stage
