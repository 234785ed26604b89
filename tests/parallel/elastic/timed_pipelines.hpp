// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PARALLEL_ELASTIC_TIMED_PIPELINES_HPP
#define CAUSEWAY_TESTS_PARALLEL_ELASTIC_TIMED_PIPELINES_HPP

// Elastic pipelines on virtual time whose blocks take exactly what they are said to take.

#include <causeway/comm/every_step.hpp>
#include <causeway/fault/quorum.hpp>
#include <causeway/parallel/elastic_pipeline.hpp>
#include <causeway/sim/disk.hpp>
#include <causeway/sim/world.hpp>
#include <causeway/train/member.hpp>
#include <causeway/train/pipeline_group.hpp>
#include <causeway/train/trainer.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "support/catch.hpp"
#include "support/timed_stages.hpp"

namespace support {

struct timed_pipelines_options {
  std::uint32_t hosts = 4;
  std::uint32_t wanted = 4;  ///< that have to come to the end
  std::int64_t stages = 4;   ///< of one block each
  std::int64_t micro_batches = 8;
  double unit = 0.1;  ///< seconds of a forward, and of each half of a backward, through a block
  /// Asked after every computation, with the host and its seconds of compute: whether its trainer hangs there for ever.
  std::function<bool(std::uint32_t, double)> hangs{};
  std::function<void(const std::string&)> trace{};  ///< every line that a peer logs
};

/// `live(world, process, trainer, identity, computed)` trains a peer; `computed` are its seconds of compute so far. Its
/// policies are `comm_of()` and `pipelines_of()`.
template <class CommOf, class PipelinesOf, class Live>
void run_timed_pipelines(const timed_pipelines_options& o, const CommOf& comm_of, const PipelinesOf& pipelines_of,
                         Live live) {
  using namespace causeway;
  sim::world world{{.seed = 3, .link = {.latency = std::chrono::microseconds{10}}}};
  std::deque<sim::disk> disks;
  for (std::uint32_t h = 0; h < o.hosts; ++h) {
    disks.emplace_back(sim::disk_options{.seed = h});
    world.set_storage(world.add_host({}), io::any_storage{io::basic_file_storage{disks.back()}});
  }
  if (o.trace) {
    world.set_log([&o](time_point t, std::uint32_t host, severity, std::string_view text) {
      o.trace(std::to_string(seconds(t.since_start)) + " host " + std::to_string(host) + ": " + std::string{text});
    });
  }
  const auto member_of = [&](sim::process& p, net::peer_id id) {
    member_options m;
    m.protocol.run = 5;
    m.protocol.expected = o.hosts;
    for (std::uint32_t h = 0; h < o.hosts && p.host() > 0; ++h) {
      if (h != p.host()) m.dial.push_back(world.address(h));
    }
    m.enters_afresh = true;
    m.secret = p.host() + 1;
    return member::make(p.make_fabric(id), p.storage(), m, p.log()).value();
  };
  std::uint32_t done = 0;
  const auto peer = [&](sim::process& p) {
    const net::peer_id id = member_identity(p.storage(), "member", 5, 2 * p.host() + 1);
    const auto group = std::make_shared<pipeline_group>(member_of(p, id));
    environment env;
    env.clock = p.clock();
    env.log = p.log();
    env.group = group;
    double computed = 0;
    const auto spend = [&](double s) {
      computed += s;
      p.compute(std::chrono::duration_cast<duration>(std::chrono::duration<double>(s)));
      if (o.hangs && o.hangs(p.host(), computed)) p.sleep(std::chrono::hours{10});
    };
    timed_stages model{o.stages, 4, nn::model_part{{0, 1}}, block_seconds{o.unit, o.unit, o.unit, spend}};
    auto trainer = make_trainer(std::move(model), std::move(env), trainer_options{}, comm_of(), optim::adamw{},
                                fault::quorum{}, pipelines_of());
    if (!trainer.start()) throw std::runtime_error{"start"};
    live(world, p, trainer, id, std::as_const(computed));
    if (++done == o.wanted) world.end_run();
    p.sleep(std::chrono::hours{1});
  };
  for (std::uint32_t h = 0; h < o.hosts; ++h) world.boot(h, peer);
  world.run_until(time_point{std::chrono::hours{1}});
  REQUIRE(done == o.wanted);
}

/// Of pipelines whose gradients are added up.
template <class Recovery, class Live>
void run_timed_pipelines(const timed_pipelines_options& o, const Recovery& recovery, Live live) {
  using namespace causeway;
  const auto pipelines_of = [&] {
    return parallel::elastic_pipeline<Recovery>{{.micro_batches = o.micro_batches}, recovery};
  };
  run_timed_pipelines(
      o, [] { return comm::every_step<>{}; }, pipelines_of, std::move(live));
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_PARALLEL_ELASTIC_TIMED_PIPELINES_HPP
