// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/two_way_schedules.hpp>

#include <causeway/plan/schedule_check.hpp>
#include <causeway/plan/timeline.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "plan/orders.hpp"
#include "support/catch.hpp"

using namespace causeway;
using plan::held_memory;
using plan::operation;
using plan::schedule;
using plan::stage_cost;
using plan::timeline;
using plan::work;

namespace {

timeline laid_out(const schedule& s, const stage_cost& c) {
  auto t = plan::timeline_of(s, plan::equal_costs(s.ranks, c));
  if (!t) FAIL(t.error().text());
  return *std::move(t);
}

/// The same order seen from the other end: rank and way are swapped.
schedule mirrored(const schedule& s) {
  schedule m = s;
  std::reverse(m.orders.begin(), m.orders.end());
  for (auto& order : m.orders) {
    for (operation& op : order) {
      op.chunk = 1 - op.chunk;
      op.micro_batch = (op.micro_batch + s.micro_batches / 2) % s.micro_batches;
    }
  }
  return m;
}

/// The step of DualPipe where a forward and the backward after it are one operation of `together` seconds, as on the
/// authors' devices. Before a rank's first backward, and for the first pair of the two ranks in the middle, they are not.
class paired_clock {
 public:
  paired_clock(const schedule& s, const stage_cost& c, double together)
      : s_{s}, c_{c}, together_{together}, next_(s.ranks), free_(s.ranks) {}

  double run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::uint32_t r = 0; r < s_.ranks; ++r) {
        while (step(r)) moved = true;
      }
    }
    for (std::uint32_t r = 0; r < s_.ranks; ++r) REQUIRE(next_[r] == s_.orders[r].size());
    return *std::max_element(free_.begin(), free_.end());
  }

 private:
  [[nodiscard]] bool is_pair(std::uint32_t rank) const {
    const auto& order = s_.orders[rank];
    const std::size_t i = next_[rank];
    if (i + 1 >= order.size() || order[i].kind != work::forward || order[i + 1].kind != work::backward) return false;
    const auto first =
        std::find_if(order.begin(), order.end(), [](const auto& op) { return gives_input_gradient(op.kind); });
    const bool middle = rank == s_.ranks / 2 || rank + 1 == s_.ranks / 2;
    return !middle || order.begin() + static_cast<std::ptrdiff_t>(i) + 1 != first;
  }
  bool step(std::uint32_t rank) {
    if (next_[rank] == s_.orders[rank].size()) return false;
    const bool pair = is_pair(rank);
    const std::size_t count = pair ? 2 : 1;
    double begin = free_[rank];
    for (std::size_t i = 0; i < count; ++i) {
      const operation& op = s_.orders[rank][next_[rank] + i];
      if (const auto source = plan::source_of(s_, rank, op)) {
        const auto found = there_.find(key(plan::virtual_stage(s_, *source), op));
        if (found == there_.end()) return false;
        begin = std::max(begin, found->second);
      }
    }
    const double end = begin + (pair ? together_ : c_.of(s_.orders[rank][next_[rank]].kind));
    for (std::size_t i = 0; i < count; ++i) {
      const operation& op = s_.orders[rank][next_[rank] + i];
      if (op.kind != work::weight_gradient) there_[key(plan::virtual_stage(s_, {rank, op.chunk}), op)] = end;
    }
    next_[rank] += count;
    free_[rank] = end;
    return true;
  }
  static std::tuple<std::uint32_t, bool, std::uint32_t> key(std::uint32_t stage, const operation& op) {
    return {stage, op.kind == work::forward, op.micro_batch};
  }

  const schedule& s_;
  stage_cost c_;
  double together_;
  std::vector<std::size_t> next_;
  std::vector<double> free_;
  std::map<std::tuple<std::uint32_t, bool, std::uint32_t>, double> there_;
};

}  // namespace

TEST_CASE("Chimera fills each way's waits with the other way's work", "[plan][fast]") {
  const auto s = plan::chimera(4, 4);  // figure 3 of the paper
  REQUIRE(s);
  CHECK(support::order_text(s->orders[0]) == "F0 F1 F2.1 B2.1 F3.1 B3.1 B0 B1");
  CHECK(support::order_text(s->orders[1]) == "F0 F2.1 F1 F3.1 B2.1 B0 B3.1 B1");
  CHECK(support::order_text(s->orders[2]) == "F2.1 F0 F3.1 F1 B0 B2.1 B1 B3.1");
  CHECK(support::order_text(s->orders[3]) == "F2.1 F3.1 F0 B0 F1 B1 B2.1 B3.1");
}

TEST_CASE("Chimera passes the validator, in the memory and with the waits of its paper", "[plan][fast]") {
  for (std::uint32_t p = 2; p <= 8; p += 2) {
    for (std::uint32_t m = 2; m <= 24; m += 2) {
      CAPTURE(p, m);
      const schedule s = *plan::chimera(p, m);
      const auto peaks = plan::check(s);
      if (!peaks) FAIL(peaks.error().text());
      CHECK(mirrored(s) == s);
      for (const held_memory& peak : *peaks) CHECK(peak.within({p, 0}));
      if (m % p != 0) continue;
      for (std::uint32_t r = 0; r < p; ++r) CHECK((*peaks)[r].activations == p / 2 + 1 + std::min(r, p - 1 - r));
      const timeline even = laid_out(s, {1, 0.5, 0.5, 1});
      CHECK(even.makespan == 2 * m + p - 2);
      CHECK(even.bubble(0) == Approx((p - 2.0) / (2.0 * m + p - 2.0)));
      if (m == p) CHECK(laid_out(s, {1, 1, 1, 1}).makespan == p + 2 * (2 * p - 2));
    }
  }
}

TEST_CASE("DualPipe has the order of its authors' program", "[plan][fast]") {
  const auto s = plan::dual_pipe(4, 8);  // github.com/deepseek-ai/DualPipe 3da1bbe, its computation replaced by notes
  REQUIRE(s);
  CHECK(support::order_text(s->orders[0]) == "F0 F1 F2 F4.1 I4.1 W4.1 F5.1 F3 B5.1 F6.1 B0 B6.1 F7.1 B1 B7.1 I2 W2 I3 W3");
  CHECK(support::order_text(s->orders[1]) == "F0 F4.1 F1 F5.1 F2 B4.1 F6.1 B0 F3 B5.1 F7.1 B1 B6.1 B2 I7.1 I3 W7.1 W3");
  CHECK(mirrored(*s) == *s);
}

TEST_CASE("DualPipe passes the validator, in the memory and with the waits of its paper", "[plan][fast]") {
  for (std::uint32_t p = 2; p <= 8; p += 2) {
    for (std::uint32_t m = 2 * p; m <= 24; m += 2) {
      CAPTURE(p, m);
      const schedule s = *plan::dual_pipe(p, m);
      const auto peaks = plan::check(s);
      if (!peaks) FAIL(peaks.error().text());
      CHECK(mirrored(s) == s);
      for (const held_memory& peak : *peaks) CHECK(peak == held_memory{p + 1, 0});
      for (const double weight : {1.0, 0.5}) {
        const stage_cost c{1, 1, weight, 1};
        const double backward = 1 + weight, alone = 1 + backward, half = p / 2.0 - 1;
        const timeline t = laid_out(s, c);
        for (std::uint32_t r = 0; r < p; ++r) CHECK(t.makespan - t.busy(r) == half * (1 + backward - 2 * weight));
        CHECK(paired_clock{s, c, alone}.run() == m * alone + half * (alone + backward - 3 * weight));
      }
    }
  }
}

TEST_CASE("Numbers with which nothing can go both ways are refused", "[plan][fast]") {
  for (const auto& s : {plan::chimera(3, 4), plan::chimera(4, 3), plan::dual_pipe(3, 12), plan::dual_pipe(4, 9)}) {
    REQUIRE_FALSE(s);
    CHECK(s.error().code == errc::invalid_argument);
    CHECK(s.error().message.find("even number of ranks") != std::string::npos);
  }
  const auto few = plan::dual_pipe(4, 6);
  REQUIRE_FALSE(few);
  CHECK(few.error().message.find("twice as many micro-batches as ranks") != std::string::npos);
  CHECK(plan::chimera(0, 4).error().code == errc::invalid_argument);
}

TEST_CASE("Micro-batches on the wrong way are found", "[plan][fast]") {
  schedule s = *plan::chimera(2, 2);
  s.orders[0][0].chunk = 1;
  CHECK(plan::check(s).error().text().find("goes the other way") != std::string::npos);
  s = *plan::chimera(2, 2);
  s.chunks = 1;
  CHECK(plan::check(s).error().text().find("two chunks on each") != std::string::npos);
}
