// SPDX-License-Identifier: Apache-2.0
// A peer of elastic pipelines whose trainer hangs while its process answers heartbeats: everybody waits for a neighbour who
// waits in turn. Who said nothing at all is at fault, and nobody else is to sit out.

#include <causeway/comm/every_step.hpp>
#include <causeway/fault/quorum.hpp>
#include <causeway/io/file_storage.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/parallel/elastic_pipeline.hpp>
#include <causeway/sim/disk.hpp>
#include <causeway/sim/world.hpp>
#include <causeway/train/member.hpp>
#include <causeway/train/pipeline_group.hpp>
#include <causeway/train/trainer.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "parallel/elastic/timed_pipelines.hpp"
#include "support/catch.hpp"

using namespace causeway;

namespace {

/// Lines of the leader that have that host's peer sit out.
std::size_t times_out(const std::string& log, std::uint32_t host) {
  const std::string line = "peer " + std::to_string(2 * host + 1) + " sits out";
  std::size_t n = 0;
  for (auto at = log.find(line); at != std::string::npos; at = log.find(line, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("elastic pipeline: of a stage that hangs and its neighbours, the one that hangs sits out",
          "[parallel][elastic]") {
  for (const std::int64_t stages : {4, 8}) {
    for (const std::uint32_t victim : {1U, 2U}) {
      support::timed_pipelines_options o;
      o.stages = stages;
      o.hosts = static_cast<std::uint32_t>(2 * stages);
      o.wanted = o.hosts - 1;
      std::string log;
      o.trace = [&](const std::string& line) { log += line + "\n"; };
      o.hangs = [=](std::uint32_t host, double computed) { return host == victim && computed > 4; };
      const std::vector<std::int32_t> tokens(static_cast<std::size_t>(o.micro_batches), 1);
      support::run_timed_pipelines(o, stage::recovery::regroup{static_cast<std::uint32_t>(stages)},
                                   [&](auto&, auto&, auto& trainer, auto, auto) {
                                     while (trainer.context().step() < 6) {
                                       if (!trainer.step({tokens, tokens, o.micro_batches})) return;
                                     }
                                   });
      INFO(stages << " stages, host " << victim << " hangs\n" << log);
      CHECK(times_out(log, victim) > 0);
      for (std::uint32_t h = 0; h < o.hosts; ++h) {
        if (h != victim) CHECK(times_out(log, h) == 0);
      }
    }
  }
}
