// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/timeline.hpp>

#include <causeway/plan/schedule_varuna.hpp>
#include <causeway/plan/schedules.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using plan::held_memory;
using plan::operation;
using plan::run_order;
using plan::schedule;
using plan::stage_cost;
using plan::stage_costs;
using plan::timeline;
using plan::work;

namespace {

timeline laid_out(const schedule& s, const stage_costs& costs, const plan::timeline_options& options = {}) {
  auto t = plan::timeline_of(s, costs, options);
  if (!t) FAIL(t.error().text());
  return *std::move(t);
}

/// Seconds in which each rank waits; the same for all ranks when stages are equal.
double idle(const timeline& t) {
  for (std::uint32_t r = 1; r < t.ranks.size(); ++r) REQUIRE(t.busy(r) == t.busy(0));
  return t.makespan - t.busy(0);
}

/// Mean makespan over seeds 0..49 of the jitter.
double mean_makespan(const schedule& s, const stage_costs& costs, double sigma, run_order order) {
  double sum = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) sum += laid_out(s, costs, {order, {sigma, seed}, {}}).makespan;
  return sum / 50;
}

// whole seconds, so that sums are exact; W <= F in the first five
constexpr std::array<stage_cost, 8> some_costs{
    {{1, 1, 1, 1}, {2, 3, 1, 2}, {3, 1, 1, 3}, {2, 3, 2, 2}, {4, 2, 1, 4}, {1, 2, 2, 1}, {1, 1, 2, 1}, {1, 3, 5, 1}}};

}  // namespace

TEST_CASE("GPipe and 1F1B wait exactly as long as theory says", "[plan][fast]") {
  for (const stage_cost& c : some_costs) {
    const double each = c.forward + c.input_gradient + c.weight_gradient;
    for (std::uint32_t p = 1; p <= 8; ++p) {
      for (std::uint32_t m = 1; m <= 16; ++m) {
        for (const schedule& s : {*plan::gpipe(p, m), *plan::one_f_one_b(p, m)}) {
          const timeline t = laid_out(s, plan::equal_costs(p, c));
          CHECK(idle(t) == (p - 1) * each);
          CHECK(t.makespan == (m + p - 1) * each);
          CHECK(t.bubble(p - 1) == Approx(plan::flush_bubble(p, m)).epsilon(1e-12));
          CHECK(t.efficiency() == Approx(1 - plan::flush_bubble(p, m)).epsilon(1e-12));
        }
      }
    }
  }
}

TEST_CASE("Interleaved chunks divide the bubble by their number, exactly", "[plan][fast]") {
  for (const stage_cost& c : some_costs) {
    const double each = c.forward + c.input_gradient + c.weight_gradient;  // of one chunk
    for (std::uint32_t p = 2; p <= 5; ++p) {
      for (std::uint32_t v = 1; v <= 3; ++v) {
        for (std::uint32_t m = p; m <= 15; m += p) {
          const timeline t = laid_out(*plan::interleaved(p, v, m), plan::equal_costs(p * v, c));
          CHECK(idle(t) == (p - 1) * each);
          CHECK(t.efficiency() == Approx(1 - plan::flush_bubble(p, m, v)).epsilon(1e-12));
          // against 1F1B of the same model: v chunks' cost in each stage
          const stage_cost whole{v * c.forward, v * c.input_gradient, v * c.weight_gradient, v * c.recompute};
          const double flush = laid_out(*plan::one_f_one_b(p, m), plan::equal_costs(p, whole)).makespan;
          CHECK((v == 1 ? t.makespan == flush : t.makespan < flush));
        }
      }
    }
  }
}

TEST_CASE("ZB-H1 waits exactly as long as its formula says, and less than 1F1B", "[plan][fast]") {
  for (const stage_cost& c : some_costs) {
    const double wait = c.input_gradient + std::max(0.0, c.forward - c.weight_gradient);
    for (std::uint32_t p = 2; p <= 8; ++p) {
      for (std::uint32_t m = p; m <= 16; ++m) {
        const timeline halves = laid_out(*plan::zero_bubble(p, m), plan::equal_costs(p, c));
        const timeline flush = laid_out(*plan::one_f_one_b(p, m), plan::equal_costs(p, c));
        CHECK(idle(halves) == (p - 1) * wait);
        CHECK(halves.makespan < flush.makespan);
        // the same peak of all ranks
        CHECK(*std::max_element(halves.peaks.begin(), halves.peaks.end(),
                                [](auto& a, auto& b) { return a.activations < b.activations; }) == flush.peaks[0]);
      }
    }
  }
  // A third of 1F1B's bubble when all three take the same time: the figure of the paper.
  CHECK(3 * idle(laid_out(*plan::zero_bubble(4, 8), plan::equal_costs(4))) ==
        idle(laid_out(*plan::one_f_one_b(4, 8), plan::equal_costs(4))));
}

TEST_CASE("ZB-H2 waits exactly as long as its formula says", "[plan][fast]") {
  for (const stage_cost& c : some_costs) {
    const double pause = c.forward + c.input_gradient - 2 * std::min(c.weight_gradient, c.forward);
    for (std::uint32_t p = 2; p <= 8; ++p) {
      for (std::uint32_t m = 2 * p - 1; m <= 18; ++m) {
        const timeline t = laid_out(*plan::zero_bubble_h2(p, m), plan::equal_costs(p, c));
        CHECK(idle(t) == (p - 1) * std::max(c.forward, pause));
        for (const held_memory& peak : t.peaks) CHECK(peak.activations == 2 * p - 1);
      }
    }
  }
  // Nothing but beginning one after another when all three take the same time: the figure of the paper.
  CHECK(idle(laid_out(*plan::zero_bubble_h2(4, 8), plan::equal_costs(4))) == 3);
}

TEST_CASE("ZB-V waits for nothing but its beginning when all three take the same time", "[plan][fast]") {
  for (std::uint32_t p = 1; p <= 8; ++p) {
    for (std::uint32_t m = 2 * p - 1; m <= 18; ++m) {
      const timeline t = laid_out(*plan::zero_bubble_v(p, m), plan::equal_costs(2 * p));
      CHECK(idle(t) == p - 1);
    }
  }
}

TEST_CASE("An asynchronous stream fills the pipeline once", "[plan][fast]") {
  const std::uint32_t p = 4;
  const double fill = idle(laid_out(*plan::asynchronous(p, 8), plan::equal_costs(p)));
  for (const std::uint32_t m : {16U, 64U}) CHECK(idle(laid_out(*plan::asynchronous(p, m), plan::equal_costs(p))) == fill);
}

TEST_CASE("Recomputing makes each backward longer by a forward", "[plan][fast]") {
  const stage_cost c{1, 1, 1, 1};
  const timeline t = laid_out(plan::with_recompute(*plan::gpipe(4, 8)), plan::equal_costs(4, c));
  // forwards 8 + 3, then the first backward of the last rank: 1 + 2, and so on; the last backward goes through 4 ranks,
  // and recomputes of waiting ranks are done before the gradient comes
  CHECK(t.makespan == 8 + 3 + 8 * 3 + 3 * 2);
  CHECK(t.busy(0) == 8 * 4);
  CHECK(t.peaks[0] == held_memory{1, 8});
}

TEST_CASE("A timeline has each operation once, one at a time, and after what it needs", "[plan][fast]") {
  const stage_costs costs = plan::equal_costs(8, {1, 1.25, 0.75, 1}, {0.3, 1, 2, 3});
  const schedule s = *plan::interleaved(4, 2, 8);
  for (const run_order order : {run_order::strict, run_order::opportunistic}) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      const timeline t = laid_out(s, costs, {order, {0.4, seed}, {}});
      std::vector<double> forward(64), backward(64);  // ends, by virtual stage and micro-batch
      for (std::uint32_t r = 0; r < 4; ++r) {
        REQUIRE(t.ranks[r].size() == s.orders[r].size());
        double free = 0;
        for (const auto& [op, start, end] : t.ranks[r]) {
          CHECK(start >= free);
          free = end;
          (op.kind == work::forward ? forward : backward)[(op.chunk * 4 + r) * 8 + op.micro_batch] = end;
        }
        CHECK(t.peaks[r].within(plan::peak_memory(s, r)));
      }
      for (std::uint32_t r = 0; r < 4; ++r) {
        for (const auto& [op, start, end] : t.ranks[r]) {
          const std::uint32_t stage = op.chunk * 4 + r;
          if (op.kind == work::forward && stage > 0) CHECK(start > forward[(stage - 1) * 8 + op.micro_batch]);
          if (op.kind != work::forward && stage < 7) CHECK(start > backward[(stage + 1) * 8 + op.micro_batch]);
          if (op.kind != work::forward) CHECK(start >= forward[stage * 8 + op.micro_batch]);
        }
      }
    }
  }
}

TEST_CASE("Opportunistic ranks finish under jitter whatever the schedule, with gradients in order", "[plan][fast]") {
  for (std::uint32_t p = 1; p <= 5; ++p) {
    const stage_costs one = plan::equal_costs(p, {}, {0.5, 1, 1, 4}), two = plan::equal_costs(2 * p, {}, {0.5, 1, 1, 4});
    const std::vector<schedule> all{*plan::gpipe(p, 8), *plan::one_f_one_b(p, 8), *plan::zero_bubble(p, 8),
                                    plan::with_recompute(*plan::one_f_one_b(p, 8)), *plan::varuna(one, 8, p + 1)};
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const plan::timeline_options options{run_order::opportunistic, {0.5, seed}, {}};
      std::vector<timeline> runs;
      for (const schedule& s : all) runs.push_back(laid_out(s, one, options));
      runs.push_back(laid_out(*plan::interleaved(p, 2, 4 * p), two, options));
      for (const timeline& t : runs) {
        schedule as_run{p, t.chunks, t.chunks == 1 ? 8 : 4 * p, true, {}};
        for (const auto& rank : t.ranks) {
          auto& order = as_run.orders.emplace_back();
          for (const auto& o : rank) order.push_back(o.op);
        }
        CHECK(plan::check(as_run));  // what has run is itself a legal schedule
      }
    }
  }
}

TEST_CASE("Under jitter Varuna's opportunistic order beats 1F1B", "[plan][fast]") {
  // 8 stages of F = I = W = R = 1 s, 32 micro-batches, log-normal jitter; 50 seeds, the same luck for both
  const std::uint32_t p = 8, m = 32;
  const schedule flush = *plan::one_f_one_b(p, m);
  SECTION("that recomputes as well, on links of a quarter of a forward") {
    const stage_costs costs = plan::equal_costs(p, {}, {0.25, 0, 0, 1});
    const schedule rule = *plan::varuna(costs, m, 2 * p);
    const double strict = mean_makespan(plan::with_recompute(flush), costs, 0.3, run_order::strict);
    const double opportunistic = mean_makespan(rule, costs, 0.3, run_order::opportunistic);
    INFO(strict << " s against " << opportunistic << " s");
    CHECK(strict / opportunistic > 1.07);
    // control: it is the order that helps, not the rule alone
    CHECK(mean_makespan(rule, costs, 0.3, run_order::strict) / opportunistic > 1.05);
  }
  SECTION("that keeps all activations and computes a quarter less, on links as slow as a forward") {
    const stage_costs costs = plan::equal_costs(p, {}, {1, 0, 0, 1});
    const schedule rule = *plan::varuna(costs, m, 2 * p);
    const double strict = mean_makespan(flush, costs, 0.2, run_order::strict);
    const double opportunistic = mean_makespan(rule, costs, 0.2, run_order::opportunistic);
    INFO(strict << " s against " << opportunistic << " s");
    CHECK(strict / opportunistic > 1.12);
  }
}

TEST_CASE("Opportunistic ranks need room: 1F1B gains nothing within its own memory, and much with more", "[plan][fast]") {
  const std::uint32_t p = 8, m = 32;
  const stage_costs costs = plan::equal_costs(p, {}, {0.25, 0, 0, 1});
  const schedule s = *plan::one_f_one_b(p, m);
  const auto mean = [&](run_order order, std::optional<held_memory> limit) {
    double sum = 0;
    for (std::uint64_t seed = 0; seed < 50; ++seed) sum += laid_out(s, costs, {order, {0.2, seed}, limit}).makespan;
    return sum / 50;
  };
  const double strict = mean(run_order::strict, {}), own = mean(run_order::opportunistic, {});
  const double twice = mean(run_order::opportunistic, held_memory{2 * p, 0});
  INFO(strict << " s, " << own << " s, " << twice << " s");
  CHECK(own > strict);  // a backward that is early makes the forward behind it late, which the next rank waits for
  CHECK(strict / twice > 1.13);
}

TEST_CASE("The same seed gives the same timeline, another another", "[plan][fast]") {
  const stage_costs costs = plan::equal_costs(4, {}, {0.1, 0, 0, 1});
  const schedule s = *plan::one_f_one_b(4, 8);
  const plan::timeline_options options{run_order::opportunistic, {0.2, 3}, {}};
  CHECK(laid_out(s, costs, options).makespan == laid_out(s, costs, options).makespan);
  CHECK(laid_out(s, costs, options).makespan != laid_out(s, costs, {run_order::opportunistic, {0.2, 4}, {}}).makespan);
}

TEST_CASE("What cannot be simulated is an error", "[plan][fast]") {
  const schedule s = *plan::one_f_one_b(4, 8);
  CHECK(plan::timeline_of(s, plan::equal_costs(3)).error().where == "costs");
  CHECK(plan::timeline_of(s, plan::equal_costs(4), {run_order::strict, {}, held_memory{3, 0}}).error().where ==
        "rank 0, position 3, F3");
  schedule broken = s;
  broken.orders[2].clear();
  CHECK_FALSE(plan::timeline_of(broken, plan::equal_costs(4)));
}
