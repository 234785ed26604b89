// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_OTHER_NETWORKS_HPP
#define CAUSEWAY_TESTS_SUPPORT_OTHER_NETWORKS_HPP

// The same peers as run_cluster's, but over TCP on this machine, or on the simulator with lines that are slow, jittery and
// lossy.

#include <causeway/sim/world.hpp>
#include <causeway/train/context.hpp>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/cluster.hpp"
#include "support/tcp_peers.hpp"

namespace support {

/// Runs `body(peer, environment)` on one thread per peer and returns when all have ended.
inline void run_over_tcp(std::uint32_t peers, const peer_body& body) {
  auto mesh = tcp_mesh(peers);
  std::vector<std::thread> threads;
  for (std::uint32_t p = 0; p < peers; ++p) {
    threads.emplace_back([&body, p, transport = std::move(mesh[p])]() mutable {
      causeway::environment env;
      env.transport = causeway::net::any_transport{std::move(transport)};
      body(p, std::move(env));
    });
  }
  for (auto& t : threads) t.join();
}

/// Runs `body(peer, environment, process)` on hosts of these speeds, one each.
template <class Body>
void run_simulated(const std::vector<double>& speeds, std::uint64_t seed, Body&& body) {
  causeway::sim::world world{{.seed = seed,
                              .link = {.latency = std::chrono::milliseconds{40},
                                       .bytes_per_s = 1e5,
                                       .jitter = std::chrono::milliseconds{30},
                                       .loss = 0.05}}};
  std::vector<causeway::sim::host_index> hosts;
  for (const double speed : speeds) hosts.push_back(world.add_host({.speed = speed}));
  for (const auto host : hosts) {
    world.boot(host, [&, host](causeway::sim::process& process) {
      auto transport = process.make_transport(hosts);
      if (!transport) throw std::runtime_error{transport.error().text()};
      causeway::environment env;
      env.transport = causeway::net::any_transport{std::move(*transport)};
      env.clock = process.clock();
      body(host, std::move(env), process);
    });
  }
  REQUIRE(world.run());
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_OTHER_NETWORKS_HPP
