// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic_pipeline.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/fault/quorum.hpp>
#include <causeway/sim/disk.hpp>
#include <causeway/sim/world.hpp>
#include <causeway/stage/recovery_reroute.hpp>
#include <causeway/train/crew_group.hpp>
#include <causeway/train/member.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/timed_stages.hpp"

// What a step takes after a loss, on virtual time: blocks take exactly what they are said to take.
namespace causeway {
namespace {

constexpr std::uint32_t hosts = 9;
constexpr std::int64_t stages = 3, micro_batches = 9;
constexpr std::uint64_t steps = 8, lost_after = 3;
constexpr double unit = 0.1;  // seconds of a forward, and of each half of a backward, through a stage

struct timed_step {
  double seconds = 0;
  stage::layout layout;
  std::vector<float> parameters;  // of block 0, where it is held
};

/// Three pipelines of three; one peer of the second stage dies. The last step, as a peer of another stage sees it.
template <class Recovery>
timed_step last_step(const Recovery& recovery) {
  sim::world world{{.seed = 3, .link = {.latency = std::chrono::microseconds{10}}}};
  std::deque<sim::disk> disks;
  for (std::uint32_t h = 0; h < hosts; ++h) {
    disks.emplace_back(sim::disk_options{.seed = h});
    world.set_storage(world.add_host({}), io::any_storage{io::basic_file_storage{disks.back()}});
  }
  timed_step last;
  std::uint32_t done = 0;
  bool killed = false;
  const auto live = [&](sim::process& p) {
    member_options o;
    o.protocol.run = 5;
    o.protocol.expected = hosts;
    for (std::uint32_t h = 0; h < hosts && p.host() > 0; ++h) {
      if (h != p.host()) o.dial.push_back(world.address(h));
    }
    o.enters_afresh = true;
    o.secret = p.host() + 1;
    const auto id = member_identity(p.storage(), "member", 5, 2 * p.host() + 1);
    const auto crew = std::make_shared<crew_group>(member::make(p.make_fabric(id), p.storage(), o, p.log()).value());
    environment env;
    env.clock = p.clock();
    env.log = p.log();
    env.group = crew;
    const support::block_seconds time{unit, unit, unit, [&p](double s) {
                                        p.compute(std::chrono::duration_cast<duration>(std::chrono::duration<double>(s)));
                                      }};
    support::timed_stages model{stages, 4, nn::model_part{{0, 1}}, time};
    using pipelines = parallel::elastic_pipeline<Recovery>;
    auto t = make_trainer(std::move(model), std::move(env), trainer_options{}, comm::every_step<>{}, optim::adamw{},
                          fault::quorum{}, pipelines{crew, {.micro_batches = micro_batches}, recovery});
    if (!t.start()) throw std::runtime_error{"start"};
    const std::vector<std::int32_t> tokens(micro_batches, 1);
    time_point before = p.now();
    while (t.context().step() < steps) {
      const auto* seat = t.parallel().layout().find(id);
      if (t.context().step() == lost_after && seat->computes.first == 1 && !std::exchange(killed, true)) {
        world.after(std::chrono::milliseconds{500}, [&world, h = p.host()] { world.kill(h); });
      }
      before = p.now();
      const auto report = t.step({tokens, tokens, micro_batches});
      if (!report) throw std::runtime_error{report.error().text()};
    }
    const auto* seat = t.parallel().layout().find(id);
    if (seat != nullptr && seat->computes.first == 0) {
      const double took = seconds(p.now() - before);
      if (took > last.seconds) last = {took, t.parallel().layout(), {}};
      last.parameters.assign(t.context().parameters().begin(), t.context().parameters().end());
    }
    if (++done == hosts - 1) world.end_run();
    p.sleep(std::chrono::hours{1});
  };
  for (std::uint32_t h = 0; h < hosts; ++h) world.boot(h, live);
  world.run_until(time_point{std::chrono::hours{1}});
  REQUIRE(killed);
  REQUIRE(done == hosts - 1);
  return last;
}

}  // namespace

TEST_CASE("elastic pipelines in time: rerouting takes what its order says, and less than a pipeline less",
          "[parallel][fast]") {
  const stage::recovery::reroute policy{stages};
  const timed_step rerouted = last_step(policy), dropped = last_step(stage::recovery::regroup{stages});
  REQUIRE(rerouted.layout.seated().size() == hosts - 1);
  REQUIRE(dropped.layout.seated().size() == 6);
  const double figure = policy.seconds(rerouted.layout).value() * unit;
  const double two_pipelines = 3 * (5 + stages - 1) * unit;  // of which one has five micro-batches
  INFO("rerouted " << rerouted.seconds << " s, by its order " << figure << " s; two pipelines " << dropped.seconds
                   << " s, by theory " << two_pipelines << " s");
  CHECK(rerouted.seconds >= figure);
  CHECK(rerouted.seconds <= figure * 1.02);
  CHECK(dropped.seconds >= two_pipelines);
  CHECK(dropped.seconds <= two_pipelines * 1.02);
  CHECK(rerouted.seconds < 0.9 * dropped.seconds);
  CHECK(rerouted.parameters.size() == dropped.parameters.size());
  for (std::size_t i = 0; i < rerouted.parameters.size(); ++i) {
    CHECK(rerouted.parameters[i] == Approx(dropped.parameters[i]).margin(1e-6));
  }
}

}  // namespace causeway
