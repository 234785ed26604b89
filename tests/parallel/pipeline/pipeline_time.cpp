// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/pipeline.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/plan/schedule_varuna.hpp>
#include <causeway/plan/schedules.hpp>
#include <causeway/sim/world.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/timed_stages.hpp"

// The executor on virtual time: blocks take exactly what they are said to take, so its step can be held to the theory.
namespace causeway::parallel {
namespace {

struct any_order {
  static constexpr std::string_view name = "any";
  [[nodiscard]] std::uint32_t chunks() const { return parts; }
  [[nodiscard]] std::uint32_t room() const { return ahead; }
  [[nodiscard]] plan::run_order order() const { return mode; }
  [[nodiscard]] result<plan::schedule> make(std::uint32_t ranks, std::uint32_t micro_batches) const {
    return made(ranks, micro_batches);
  }
  result<plan::schedule> (*made)(std::uint32_t, std::uint32_t) = &plan::one_f_one_b;
  std::uint32_t parts = 1;
  std::uint32_t ahead = 0;
  plan::run_order mode = plan::run_order::strict;
  plan::stage_path way = plan::stage_path::round;
  [[nodiscard]] plan::stage_path path() const { return way; }
};
constexpr auto opportunistic = plan::run_order::opportunistic;

struct timed_case {
  std::uint32_t ranks = 4;
  std::uint32_t micro_batches = 16;
  std::int64_t blocks = 8;
  sim::link_options link{.latency = std::chrono::microseconds{1}};
  std::uint64_t seed = 1;
  double spread = 0;  ///< of the time of each block: uniform in 1 ± spread
};

constexpr std::uint64_t steps = 3;

/// Virtual seconds of a step once the pipeline has started.
double step_seconds(const timed_case& c, any_order order) {
  sim::world world{{.seed = c.seed, .link = c.link}};
  std::vector<sim::host_index> hosts;
  for (std::uint32_t p = 0; p < c.ranks; ++p) hosts.push_back(world.add_host({}));
  const pipeline_options options{.micro_batches = c.micro_batches};
  std::vector<double> ends(c.ranks);
  for (const auto host : hosts) {
    world.boot(host, [&, host](sim::process& process) {
      auto transport = process.make_transport(hosts);
      if (!transport) throw std::runtime_error{transport.error().text()};
      environment env;
      env.transport = net::any_transport{std::move(*transport)};
      env.clock = process.clock();
      rng luck{c.seed, mix(host, 0x74696D65)};
      support::block_seconds time;
      time.spend = [&](double s) {
        const double factor = 1 + c.spread * (2 * luck.uniform() - 1);
        process.compute(std::chrono::duration_cast<duration>(std::chrono::duration<double>(s * factor)));
      };
      const auto place = place_in(options, host, c.ranks).value();
      support::timed_stages model{c.blocks, 4, part_of(options, place, c.blocks, order.chunks(), order.path()).value(),
                                  time};
      auto t = make_trainer(std::move(model), std::move(env), trainer_options{}, comm::every_step<>{},
                            pipeline<any_order>{options, order}, optim::sgd{});
      const std::vector<std::int32_t> tokens(c.micro_batches, 1);
      if (!t.start()) throw std::runtime_error{"start"};
      const time_point begin = process.now();
      for (std::uint64_t s = 0; s < steps; ++s) {
        const auto report = t.step({tokens, tokens, static_cast<std::int64_t>(c.micro_batches)});
        if (!report) throw std::runtime_error{report.error().text()};
      }
      ends[host] = seconds(process.now() - begin) / static_cast<double>(steps);
    });
  }
  REQUIRE(world.run());
  return *std::max_element(ends.begin(), ends.end());
}

result<plan::schedule> two_chunks(std::uint32_t ranks, std::uint32_t m) { return plan::interleaved(ranks, 2, m); }

}  // namespace

TEST_CASE("pipeline in time: every schedule takes at most 3 % longer than its theory", "[parallel][fast]") {
  const timed_case c;
  const double p = 4, m = 16, v = 2;
  const double block = 3;               // seconds of forward and backward
  const double stage_time = 2 * block;  // of a rank and micro-batch
  CHECK(step_seconds(c, {&plan::gpipe}) <= (m + p - 1) * stage_time / 0.97);
  CHECK(step_seconds(c, {&plan::one_f_one_b}) <= (m + p - 1) * stage_time / 0.97);
  CHECK(step_seconds(c, {&two_chunks, 2}) <= (m + (p - 1) / v) * stage_time / 0.97);
  CHECK(step_seconds(c, {&plan::zero_bubble}) <= (m * stage_time + (p - 1) * 2) / 0.97);  // F = I = W = 2 s a stage
  const any_order folded{&plan::zero_bubble_v, 2, 0, plan::run_order::strict, plan::stage_path::folded};
  CHECK(step_seconds(c, folded) <= (m * stage_time + (p - 1)) / 0.97);  // F = I = W = 1 s a chunk
}

TEST_CASE("pipeline in time: from both ends there is less to wait for", "[parallel][fast]") {
  const auto both = [](decltype(any_order::made) made) {
    return any_order{made, 2, 0, plan::run_order::strict, plan::stage_path::two_ways};
  };
  const double p = 4, stage_time = 6;
  const timed_case one_unit{.micro_batches = 4};
  CHECK(step_seconds(one_unit, both(&plan::chimera)) <= (p * 2 + (2 * p - 2) * 4) / 0.97);
  CHECK(step_seconds(one_unit, both(&plan::chimera)) < step_seconds(one_unit, {&plan::one_f_one_b}) / 1.25);
  const timed_case c;
  CHECK(step_seconds(c, both(&plan::dual_pipe)) <= (16 * stage_time + (p / 2 - 1) * (2 + 4 - 2 * 2)) / 0.97);
}

TEST_CASE("pipeline in time: zero bubble beats 1F1B, interleaved too", "[parallel][fast]") {
  const timed_case c{.micro_batches = 8};
  const double flush = step_seconds(c, {&plan::one_f_one_b});
  CHECK(step_seconds(c, {&plan::zero_bubble}) < flush / 1.2);
  CHECK(step_seconds(c, {&two_chunks, 2}) < flush / 1.1);
}

TEST_CASE("pipeline in time: where blocks and lines take as long as they like, Varuna's rule beats 1F1B",
          "[parallel][fast]") {
  const auto varuna = [](std::uint32_t ranks, std::uint32_t m) { return stage::varuna{}.make(ranks, m); };
  const auto recomputed = [](std::uint32_t ranks, std::uint32_t m) -> result<plan::schedule> {
    CAUSEWAY_ASSIGN(const plan::schedule s, plan::one_f_one_b(ranks, m));
    return plan::with_recompute(s);
  };
  double flush = 0, rule = 0, in_order = 0, ahead = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const timed_case c{.link = {.latency = std::chrono::milliseconds{500}, .jitter = std::chrono::seconds{2}},
                       .seed = seed,
                       .spread = 0.5};
    flush += step_seconds(c, {recomputed});
    rule += step_seconds(c, {varuna, 1, 0, opportunistic});
    in_order += step_seconds(c, {&plan::one_f_one_b});
    ahead += step_seconds(c, {&plan::one_f_one_b, 1, 4, opportunistic});
  }
  INFO("mean step: 1F1B with recomputation " << flush / 10 << " s, Varuna " << rule / 10 << " s; 1F1B " << in_order / 10
                                             << " s, with room to run ahead " << ahead / 10 << " s");
  CHECK(flush / rule > 1.08);
  CHECK(in_order / ahead > 1.1);
}

namespace {

/// What the others say when `hung` computes for ever in its second step, or comes to a not-a-number there, and when.
struct ended {
  std::vector<error> errors;
  std::vector<double> at;
};
ended second_step_with(std::uint32_t victim, bool spoilt) {
  constexpr std::uint32_t ranks = 4, micro_batches = 4;
  sim::world world{{.seed = 1}};
  std::vector<sim::host_index> hosts;
  for (std::uint32_t p = 0; p < ranks; ++p) hosts.push_back(world.add_host({}));
  const pipeline_options options{.micro_batches = micro_batches};
  ended e{std::vector<error>(ranks), std::vector<double>(ranks)};
  for (const auto host : hosts) {
    world.boot(host, [&, host](sim::process& process) {
      environment env;
      env.transport = net::any_transport{std::move(*process.make_transport(hosts))};
      env.clock = process.clock();
      std::uint64_t step = 0;
      parameter_store* store = nullptr;
      const auto spend = [&](double s) {
        process.compute(std::chrono::duration_cast<duration>(std::chrono::duration<double>(s)));
        if (step != 1 || host != victim) return;
        if (spoilt) store->view().values[0] = std::numeric_limits<float>::quiet_NaN();
        if (!spoilt) process.sleep(std::chrono::hours{48});
      };
      const auto place = place_in(options, host, ranks).value();
      support::timed_stages model{ranks, 4, part_of(options, place, ranks, 1).value(), {1, 1, 1, spend}};
      auto t = make_trainer(std::move(model), std::move(env), trainer_options{}, comm::every_step<>{}, pipeline<>{options},
                            optim::sgd{});
      store = &t.model().parameters();
      const std::vector<std::int32_t> tokens(micro_batches, 1);
      REQUIRE(t.start());
      for (; step < 2; ++step) {
        const auto report = t.step({tokens, tokens, micro_batches});
        if (!report) e.errors[host] = report.error();
      }
      e.at[host] = seconds(process.now().since_start);
    });
  }
  world.run_until(time_point{std::chrono::hours{100}});
  return e;
}

}  // namespace

TEST_CASE(
    "pipeline in time: a peer that hangs ends the others' wait after what a batch has taken, and they name whom they "
    "wait for",
    "[parallel][fast]") {
  for (const std::uint32_t victim : {0U, 1U, 3U}) {
    const ended e = second_step_with(victim, false);
    for (std::uint32_t p = 0; p < 4; ++p) {
      if (p == victim) continue;
      INFO("peer " << p << " of a pipeline where peer " << victim << " hangs: " << e.errors[p].text());
      CHECK((e.errors[p].code == errc::timeout || e.errors[p].code == errc::peer_lost));
      CHECK(e.errors[p].where.find("peer") != std::string::npos);
      CHECK(e.at[p] > 600);
      CHECK(e.at[p] < 3600);
    }
  }
}

TEST_CASE("pipeline in time: what is not finite is not sent; its stage and micro-batch are named", "[parallel][fast]") {
  for (const std::uint32_t victim : {0U, 1U, 2U}) {
    const ended e = second_step_with(victim, true);
    CHECK(e.errors[victim].code == errc::non_finite);
    CHECK(e.errors[victim].text().find("this stage: it came to values that are not finite for micro-batch") == 0);
    for (std::uint32_t p = 0; p < 4; ++p) {
      if (p != victim) CHECK(e.errors[p].code != errc::non_finite);  // nobody else is at fault
    }
  }
}

}  // namespace causeway::parallel
