// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/schedules.hpp>

#include <causeway/plan/schedule_check.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "plan/orders.hpp"
#include "support/catch.hpp"

using namespace causeway;
using plan::held_memory;
using plan::operation;
using plan::schedule;
using plan::work;

namespace {

/// The peaks of each rank; the schedule must pass the validator.
std::vector<held_memory> peaks_of(const schedule& s) {
  const auto peaks = plan::check(s);
  if (!peaks) FAIL(peaks.error().text());
  REQUIRE(plan::keeps_order(s));
  return *peaks;
}

}  // namespace

TEST_CASE("GPipe runs all forwards, then all backwards, in the order of the micro-batches", "[plan][fast]") {
  const auto s = plan::gpipe(2, 3);
  REQUIRE(s);
  for (const auto& order : s->orders) CHECK(support::order_text(order) == "F0 F1 F2 B0 B1 B2");
}

TEST_CASE("1F1B runs as many forwards ahead as there are ranks behind", "[plan][fast]") {
  const auto s = plan::one_f_one_b(3, 4);
  REQUIRE(s);
  CHECK(support::order_text(s->orders[0]) == "F0 F1 F2 B0 F3 B1 B2 B3");
  CHECK(support::order_text(s->orders[1]) == "F0 F1 B0 F2 B1 F3 B2 B3");
  CHECK(support::order_text(s->orders[2]) == "F0 B0 F1 B1 F2 B2 F3 B3");
}

TEST_CASE("The interleaved schedule sends groups of micro-batches through one chunk after the other", "[plan][fast]") {
  const auto s = plan::interleaved(2, 2, 4);
  REQUIRE(s);
  CHECK(support::order_text(s->orders[0]) ==
        "F0 F1 F0.1 F1.1 F2 B0.1 F3 B1.1 F2.1 B0 F3.1 B1 B2.1 B3.1 B2 B3");  // 2 (p - 1) + (v - 1) p = 4 ahead
  CHECK(support::order_text(s->orders[1]) == "F0 F1 F0.1 B0.1 F1.1 B1.1 F2 B0 F3 B1 F2.1 B2.1 F3.1 B3.1 B2 B3");
}

TEST_CASE("ZB-H1 leaves a rank as many weight gradients behind as its number", "[plan][fast]") {
  const auto s = plan::zero_bubble(3, 4);
  REQUIRE(s);
  CHECK(support::order_text(s->orders[0]) == "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3");
  CHECK(support::order_text(s->orders[1]) == "F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3");
  CHECK(support::order_text(s->orders[2]) == "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3");
}

TEST_CASE("ZB-H2 runs and leaves twice as many ahead and behind", "[plan][fast]") {
  const auto s = plan::zero_bubble_h2(3, 6);
  REQUIRE(s);
  CHECK(support::order_text(s->orders[0]) == "F0 F1 F2 F3 F4 I0 W0 F5 I1 W1 I2 W2 I3 W3 I4 W4 I5 W5");
  CHECK(support::order_text(s->orders[1]) == "F0 F1 F2 I0 F3 I1 F4 I2 W0 F5 I3 W1 I4 W2 I5 W3 W4 W5");
  CHECK(support::order_text(s->orders[2]) == "F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 F5 I5 W1 W2 W3 W4 W5");
}

TEST_CASE("ZB-V goes through the ranks and back", "[plan][fast]") {
  const auto s = plan::zero_bubble_v(2, 3);
  REQUIRE(s);
  CHECK(support::order_text(s->orders[0]) == "F0 F1 F2 F0.1 I0.1 W0.1 F1.1 I1.1 W1.1 I0 W0 F2.1 I2.1 W2.1 I1 W1 I2 W2");
  CHECK(support::order_text(s->orders[1]) == "F0 F0.1 F1 F1.1 I0.1 W0.1 F2 I0 W0 F2.1 I1.1 W1.1 I1 I2.1 I2 W1 W2.1 W2");
  for (std::uint32_t p = 1; p <= 8; ++p) {
    for (std::uint32_t m = 1; m <= 16; ++m) {
      for (const held_memory& peak : peaks_of(*plan::zero_bubble_v(p, m))) {
        CHECK(peak.within({std::min(2 * p, 2 * m), 0}));
        if (m >= 2 * p - 1) CHECK(peak == held_memory{2 * p, 0});
      }
    }
  }
  CHECK(plan::zero_bubble_v(0, 4).error().code == errc::invalid_argument);
}

TEST_CASE("Every generator's schedule passes the validator, within its memory", "[plan][fast]") {
  for (std::uint32_t p = 1; p <= 8; ++p) {
    for (std::uint32_t m = 1; m <= 16; ++m) {
      const auto all = peaks_of(*plan::gpipe(p, m));
      const auto flush = peaks_of(*plan::one_f_one_b(p, m));
      const auto halves = peaks_of(*plan::zero_bubble(p, m));
      const auto double_halves = peaks_of(*plan::zero_bubble_h2(p, m));
      const auto stored = peaks_of(plan::with_recompute(*plan::gpipe(p, m)));
      for (std::uint32_t r = 0; r < p; ++r) {
        CHECK(all[r] == held_memory{m, 0});
        CHECK(flush[r] == held_memory{std::min(p - r, m), 0});
        CHECK(halves[r].within({std::min(p, m), 0}));
        CHECK(double_halves[r] == held_memory{std::min(2 * p - 1, m), 0});
        // a single forward right before its backward keeps its activations
        CHECK(stored[r] == (m == 1 ? held_memory{1, 0} : held_memory{1, m}));
      }
      const auto stream = plan::asynchronous(p, m);
      CHECK_FALSE(stream->flushes);
      CHECK(peaks_of(*stream) == flush);
    }
  }
}

TEST_CASE("Every interleaved schedule passes the validator, within its memory", "[plan][fast]") {
  for (std::uint32_t p = 1; p <= 8; ++p) {
    for (std::uint32_t v = 1; v <= 4; ++v) {
      for (std::uint32_t m = p; m <= 16; m += p) {
        const auto peaks = peaks_of(*plan::interleaved(p, v, m));
        for (std::uint32_t r = 0; r < p; ++r) {
          const std::uint32_t bound = v == 1 ? p - r : 2 * (p - 1 - r) + (v - 1) * p + 1;
          CHECK(peaks[r] == held_memory{std::min(bound, v * m), 0});
        }
      }
    }
  }
  CHECK(*plan::interleaved(4, 1, 8) == *plan::one_f_one_b(4, 8));
}

TEST_CASE("The stream of PipeDream is the order of a stretch of it, for ever", "[plan][fast]") {
  const auto s = plan::asynchronous(4, 50);
  for (std::uint32_t r = 0; r < 4; ++r) {
    for (std::uint64_t k = 0; k < 90; ++k) {
      CHECK(plan::stream_operation(4, r, k) == s->orders[r][k]);
    }
    // p - 1 - r updates between a micro-batch's forward and its backward
    const auto& order = s->orders[r];
    const auto forward = std::find(order.begin(), order.end(), operation{work::forward, 20});
    const auto backward = std::find(order.begin(), order.end(), operation{work::backward, 20});
    CHECK(std::count_if(forward, backward, [](const operation& op) { return op.kind == work::backward; }) == 3 - r);
  }
}

TEST_CASE("Recomputes stand right before the backwards that need them", "[plan][fast]") {
  const schedule s = plan::with_recompute(*plan::one_f_one_b(2, 3));
  CHECK(support::order_text(s.orders[0]) == "F0 F1 R0 B0 F2 R1 B1 R2 B2");
  CHECK(support::order_text(s.orders[1]) == "F0 B0 F1 B1 F2 B2");
  CHECK(support::order_text(plan::with_recompute(*plan::zero_bubble(2, 2)).orders[0]) == "F0 F1 R0 I0 W0 R1 I1 W1");
}

TEST_CASE("Sizes that no schedule has are errors that say so", "[plan][fast]") {
  CHECK(plan::gpipe(0, 1).error().code == errc::invalid_argument);
  CHECK(plan::one_f_one_b(1, 0).error().code == errc::invalid_argument);
  CHECK(plan::interleaved(2, 0, 2).error().code == errc::invalid_argument);
  CHECK(plan::zero_bubble(4'000'000'000, 4'000'000'000).error().code == errc::too_large);
  CHECK(plan::zero_bubble_h2(0, 4).error().code == errc::invalid_argument);
  CHECK(plan::interleaved(4'000'000'000, 4'000'000'000, 4'000'000'000).error().code == errc::too_large);
  const auto odd = plan::interleaved(4, 2, 6);
  REQUIRE_FALSE(odd);
  CHECK(odd.error().message.find("4 ranks divide, not 6") != std::string::npos);
}

TEST_CASE("Forwards alone go chunk by chunk, each in the order of micro-batches", "[plan][fast]") {
  const plan::schedule s = *plan::forwards_only(2, 2, 2);
  const std::vector<plan::operation> order{
      {plan::work::forward, 0, 0}, {plan::work::forward, 1, 0}, {plan::work::forward, 0, 1}, {plan::work::forward, 1, 1}};
  CHECK(s.orders == std::vector{order, order});
  CHECK_FALSE(plan::forwards_only(2, 1, 0));
}
