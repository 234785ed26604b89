// SPDX-License-Identifier: Apache-2.0
// A peer of a swarm whose trainer hangs while its process goes on sending heartbeats: the others do without it.

#include <causeway/parallel/swarm.hpp>

#include <chrono>
#include <cstdint>
#include <string>

#include "parallel/swarm/swarm_world.hpp"
#include "support/catch.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using support::all_like_unsplit, support::three_stages;

TEST_CASE("swarm: a peer whose trainer hangs is left out by itself, and nobody else is", "[parallel][fast]") {
  for (const std::uint32_t victim : {0U, 1U, 4U, 8U}) {
    for (const std::uint64_t at : {20U, 31U, 40U}) {
      INFO("host " << victim << ", before computation " << at);
      std::string log;
      support::swarm_world_options o = three_stages;
      o.steps = 4;
      o.hangs = [=](std::uint32_t host, std::uint64_t n) { return host == victim && n == at; };
      o.trace = [&](const std::string& line) { log += line + "\n"; };
      support::swarm_world<> swarm{o};
      swarm.wanted = swarm.hosts() - 1;
      swarm.boot();
      swarm.run(5min);
      all_like_unsplit(swarm, victim);
      CHECK(log.find("host " + std::to_string(victim) + ": this peer's trainer has done nothing for") != std::string::npos);
      for (std::uint32_t h = 0; h < swarm.hosts(); ++h) {
        if (h != victim) CHECK(log.find("host " + std::to_string(h) + ": this peer's trainer has") == std::string::npos);
      }
    }
  }
}

TEST_CASE("swarm: a trainer that hung for a while comes back, and nothing is counted twice", "[parallel][fast]") {
  for (const std::uint32_t victim : {0U, 1U, 4U, 7U}) {
    INFO("host " << victim);
    support::swarm_world_options o = three_stages;
    o.hangs = [=](std::uint32_t host, std::uint64_t n) { return host == victim && n == 21; };
    o.hangs_for = 30s;
    support::swarm_world<> swarm{o};
    swarm.boot();
    swarm.run(5min);
    all_like_unsplit(swarm);
  }
}
