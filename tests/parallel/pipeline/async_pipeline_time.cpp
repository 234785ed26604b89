// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/async_pipeline.hpp>

#include <causeway/comm/periodic.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/plan/schedules.hpp>
#include <causeway/sim/world.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/timed_stages.hpp"

// The stream on virtual time: blocks take exactly what they are said to take.
namespace causeway::parallel {
namespace {

constexpr std::uint32_t ranks = 4;
constexpr std::int64_t blocks = 8;

constexpr double stage_seconds = 2 * 3;  // two blocks, each a second of forward, input gradient and weight gradient

// The share of the last steps' time in which the rank that was at work least computed.
double least_use(duration latency, std::uint32_t ahead) {
  constexpr std::uint64_t filled = 12, steps = 32;  // from the first on all ranks have work
  const async_pipeline_options o{.ahead = ahead};
  sim::world world{{.seed = 1, .link = {.latency = latency}}};
  std::vector<sim::host_index> hosts;
  for (std::uint32_t p = 0; p < ranks; ++p) hosts.push_back(world.add_host({}));
  std::vector<double> use(ranks);
  for (const auto host : hosts) {
    world.boot(host, [&, host](sim::process& process) {
      auto transport = process.make_transport(hosts);
      if (!transport) throw std::runtime_error{transport.error().text()};
      environment env;
      env.transport = net::any_transport{std::move(*transport)};
      env.clock = process.clock();
      support::block_seconds time;
      time.spend = [&](double s) {
        process.compute(std::chrono::duration_cast<duration>(std::chrono::duration<double>(s)));
      };
      const auto place = place_in(o.cut, host, ranks).value();
      support::timed_stages model{blocks, 4, part_of(o.cut, place, blocks).value(), time};
      auto t = make_trainer(std::move(model), std::move(env), trainer_options{}, comm::periodic<>{{.local_steps = 1000}},
                            async_pipeline<>{o}, optim::sgd{});
      if (!t.start()) throw std::runtime_error{"start"};
      time_point begin{};
      for (std::uint64_t s = 0; s < steps; ++s) {
        if (s == filled) begin = process.now();
        const std::vector<std::int32_t> token(1, 1);
        const auto report = t.step({token, token, 1});
        if (!report) throw std::runtime_error{report.error().text()};
      }
      use[host] = static_cast<double>(steps - filled) * stage_seconds / seconds(process.now() - begin);
    });
  }
  REQUIRE(world.run());
  return *std::min_element(use.begin(), use.end());
}

}  // namespace

TEST_CASE("async pipeline: every stage is at work all of the time", "[parallel][fast]") {
  const double use = least_use(std::chrono::microseconds{1}, 0);
  const double flushed = 1 - plan::flush_bubble(ranks, ranks);  // 1F1B with as many micro-batches as are in flight here
  INFO("use " << use << ", 1F1B " << flushed);
  CHECK(use >= 0.97);
  CHECK(use <= 1.0 + 1e-9);
  CHECK(flushed < 0.6);
}

TEST_CASE("async pipeline: lines that take long cost time, which micro-batches ahead hide", "[parallel][fast]") {
  constexpr double latency = stage_seconds / 3;
  const auto line = std::chrono::duration_cast<duration>(std::chrono::duration<double>(latency));
  const double bare = least_use(line, 0), hidden = least_use(line, 1);
  INFO("use " << bare << ", with one micro-batch ahead " << hidden);
  // `ranks` micro-batches are on a round trip of as many stages and all lines, there and back.
  CHECK(bare == Approx(stage_seconds / (stage_seconds + 2 * latency * (ranks - 1) / ranks)).epsilon(0.01));
  CHECK(hidden >= 0.97);
}

namespace {

struct ended {
  std::vector<error> errors{ranks};
  std::vector<double> at = std::vector<double>(ranks);
};

/// What all say when `victim` computes for ever in its fifth step, and when.
ended with_one_that_hangs(std::uint32_t victim, std::uint32_t ahead) {
  const async_pipeline_options o{.ahead = ahead};
  sim::world world{{.seed = 1}};
  std::vector<sim::host_index> hosts;
  for (std::uint32_t p = 0; p < ranks; ++p) hosts.push_back(world.add_host({}));
  ended e;
  for (const auto host : hosts) {
    world.boot(host, [&, host](sim::process& process) {
      environment env;
      env.transport = net::any_transport{std::move(*process.make_transport(hosts))};
      env.clock = process.clock();
      std::uint64_t step = 0;
      support::block_seconds time;
      time.spend = [&](double s) {
        process.compute(std::chrono::duration_cast<duration>(std::chrono::duration<double>(s)));
        if (step == 4 && host == victim) process.sleep(std::chrono::hours{48});
      };
      const auto place = place_in(o.cut, host, ranks).value();
      support::timed_stages model{blocks, 4, part_of(o.cut, place, blocks).value(), time};
      auto t = make_trainer(std::move(model), std::move(env), trainer_options{}, comm::periodic<>{{.local_steps = 1000}},
                            async_pipeline<>{o}, optim::sgd{});
      const std::vector<std::int32_t> token(1, 1);
      REQUIRE(t.start());
      for (; step < 100; ++step) {
        const auto report = t.step({token, token, 1});
        if (report) continue;
        e.errors[host] = report.error();
        break;
      }
      e.at[host] = seconds(process.now().since_start);
    });
  }
  world.run_until(time_point{std::chrono::hours{40}});
  return e;
}

}  // namespace

TEST_CASE("async pipeline: a peer that hangs ends the others' wait, and they name whom they wait for", "[parallel][fast]") {
  for (const std::uint32_t ahead : {0U, 2U}) {
    for (const std::uint32_t victim : {0U, 1U, 3U}) {
      const ended e = with_one_that_hangs(victim, ahead);
      for (std::uint32_t p = 0; p < ranks; ++p) {
        if (p == victim) continue;
        INFO("peer " << p << " of a stream where peer " << victim << " hangs: " << e.errors[p].text());
        CHECK((e.errors[p].code == errc::timeout || e.errors[p].code == errc::peer_lost));
        CHECK(e.errors[p].where.find("peer") != std::string::npos);
        CHECK(e.at[p] > 600);
        CHECK(e.at[p] < 3600);
      }
    }
  }
}

}  // namespace causeway::parallel
