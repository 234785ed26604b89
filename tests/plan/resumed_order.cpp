// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/resumed_order.hpp>

#include <causeway/plan/routed_schedule.hpp>
#include <causeway/plan/schedules.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace causeway {
namespace {

using plan::unit_state;

// What a pipeline has done when its peers have made so many operations each of their orders, as far as inputs are there.
plan::step_progress after(std::size_t stages, std::size_t micro_batches, std::size_t operations) {
  auto p = plan::step_progress::fresh(stages, micro_batches);
  const auto orders = plan::resumed_orders(p).value();
  std::vector<std::size_t> next(stages);
  for (std::size_t round = 0; round < operations; ++round) {
    for (std::size_t r = 0; r < stages; ++r) {
      if (next[r] == orders[r].order.size()) continue;
      const plan::operation& op = orders[r].order[next[r]];
      const bool goes_forward = op.kind == plan::work::forward;
      const auto m = op.micro_batch;
      if (goes_forward && r > 0 && p.units[r - 1][m] == unit_state::untouched) continue;
      if (!goes_forward && r + 1 < stages && p.units[r + 1][m] != unit_state::done) continue;
      p.units[r][m] = goes_forward ? unit_state::forward : unit_state::done;
      ++next[r];
    }
  }
  return p;
}

// Whether the orders do all that is left, each once and in order, without a circle; `most`: operations of one rank.
void check_whole(plan::step_progress p) {
  const auto made = plan::resumed_orders(p);
  REQUIRE(made);
  std::vector<std::size_t> next(made->size());
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < made->size(); ++r) {
      for (; next[r] < (*made)[r].order.size(); ++next[r], moved = true) {
        const plan::operation& op = (*made)[r].order[next[r]];
        const std::size_t s = op.chunk, m = op.micro_batch;
        REQUIRE(p.owners[s] == r);
        unit_state& u = p.units[s][m];
        if (op.kind == plan::work::forward) {
          if (s > 0 && p.units[s - 1][m] == unit_state::untouched) break;
          REQUIRE(u == unit_state::untouched);
          u = unit_state::forward;
        } else {
          if (s + 1 < p.stages() && p.units[s + 1][m] != unit_state::done) break;
          REQUIRE(u == unit_state::forward);
          REQUIRE((m == 0 || p.units[s][m - 1] == unit_state::done));  // sums in the order of micro-batches
          u = unit_state::done;
        }
      }
    }
  }
  for (const auto& row : p.units) {
    for (const unit_state u : row) CHECK(u == unit_state::done);
  }
}

}  // namespace

TEST_CASE("resumed order: of a step that nobody has begun it is 1F1B", "[plan][fast]") {
  for (const std::uint32_t stages : {1U, 2U, 4U, 5U}) {
    for (const std::uint32_t micro_batches : {1U, 3U, 8U}) {
      std::vector<std::vector<plan::operation>> made;
      const auto plans = plan::resumed_orders(plan::step_progress::fresh(stages, micro_batches)).value();
      for (const plan::rank_plan& p : plans) made.push_back(p.order);
      auto want = plan::one_f_one_b(stages, micro_batches).value().orders;
      for (std::uint32_t s = 0; s < stages; ++s) {
        for (auto& op : want[s]) op.chunk = s;
      }
      CHECK(made == want);
    }
  }
}

TEST_CASE("resumed order: whoever is lost, and whenever, what is left is done once", "[plan][fast]") {
  constexpr std::size_t stages = 4, micro_batches = 6;
  for (std::size_t operations = 0; operations <= 2 * (micro_batches + stages); ++operations) {
    const auto before = after(stages, micro_batches, operations);
    check_whole(before);
    for (std::size_t lost = 0; lost < stages; ++lost) {
      for (std::size_t repeated = 0; repeated <= micro_batches; ++repeated) {  // forwards that the shadow has
        CAPTURE(operations, lost, repeated);
        auto p = before;
        const std::size_t shadow = lost == 0 ? stages - 1 : lost - 1;
        p.owners[lost] = static_cast<std::uint32_t>(shadow);
        for (std::size_t m = 0; m < micro_batches; ++m) {
          const bool has_input = lost == 0 || p.units[lost - 1][m] != unit_state::untouched;
          p.units[lost][m] = m < repeated && has_input ? unit_state::forward : unit_state::untouched;
        }
        check_whole(std::move(p));
      }
    }
  }
}

TEST_CASE("resumed order: forwards of another stage are repeated in idle time, which delays nobody", "[plan][fast]") {
  constexpr std::uint32_t stages = 4;
  for (const std::uint32_t micro_batches : {1U, 4U, 8U, 20U}) {
    const auto plans = plan::resumed_orders(plan::step_progress::fresh(stages, micro_batches)).value();
    std::vector<std::uint32_t> all(micro_batches);
    std::iota(all.begin(), all.end(), 0U);
    CHECK(plans[0].end == 3 * (micro_batches + stages - 1));
    for (std::uint32_t r = 0; r < stages; ++r) {
      CAPTURE(micro_batches, r);
      const std::uint32_t next = (r + 1) % stages;
      const auto idle = plan::with_repeats(plans[r], next, all, false),
                 most = plan::with_repeats(plans[r], next, all, true);
      const std::size_t repeated = idle.size() - plans[r].order.size();
      CHECK(most.size() - plans[r].order.size() == micro_batches);
      CHECK(repeated >= std::min<std::size_t>(micro_batches, stages - 1));
      CHECK(repeated <= 3 * (stages - 1));  // all the time in which 1F1B has a rank wait
      // What it does besides is in its order, and a repeated forward comes after that of the stage before.
      for (const auto& order : {idle, most}) {
        std::vector<plan::operation> own;
        std::uint32_t m = 0;
        for (const plan::operation& op : order) {
          if (op.chunk == r) own.push_back(op);
          if (op.chunk != next) continue;
          CHECK(op == plan::operation{plan::work::forward, m, next});
          if (next > 0) CHECK(std::find(own.begin(), own.end(), plan::operation{plan::work::forward, m, r}) != own.end());
          ++m;
        }
        CHECK(own == plans[r].order);
      }
    }
  }
  // A rank has nothing else to do: what is missing is repeated all the same, if all is to be.
  CHECK(plan::with_repeats({}, 1, std::vector<std::uint32_t>{3, 5}, true).size() == 2);
  CHECK(plan::with_repeats({}, 1, std::vector<std::uint32_t>{3, 5}, false).empty());
}

TEST_CASE("resumed order: what no peers can have done is refused", "[plan][fast]") {
  auto p = plan::step_progress::fresh(2, 2);
  p.units[1][0] = unit_state::forward;
  p.units[1][1] = unit_state::forward;  // one more than there is room for, and before it the first is not done
  p.units[0][0] = unit_state::done;
  p.units[0][1] = unit_state::done;
  CHECK(plan::resumed_orders(p));  // odd, but it can be ended
  p.units[0] = {unit_state::untouched, unit_state::forward};
  p.units[1] = {unit_state::untouched, unit_state::forward};
  CHECK(plan::resumed_orders(p).error().code == errc::protocol);
}

}  // namespace causeway
