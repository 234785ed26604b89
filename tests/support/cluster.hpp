// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_CLUSTER_HPP
#define CAUSEWAY_TESTS_SUPPORT_CLUSTER_HPP

// A few peers as threads over the in-process network, each running the same function.

#include <causeway/net/memory_transport.hpp>
#include <causeway/train/context.hpp>

#include <cstdint>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace support {

/// What a peer does. One type, so that threads are compiled once and not for every test.
using peer_body = std::function<void(std::uint32_t peer, causeway::environment env)>;

/// Runs `body(peer, environment)` on one thread per peer and returns when all have ended.
inline void run_cluster(causeway::net::memory_network& network, std::uint32_t peers, const peer_body& body) {
  std::vector<std::thread> threads;
  for (std::uint32_t peer = 0; peer < peers; ++peer) {
    causeway::environment env;
    env.transport = causeway::net::any_transport{network.transport(peer)};
    threads.emplace_back([&body, peer, e = std::move(env)]() mutable { body(peer, std::move(e)); });
  }
  for (auto& t : threads) t.join();
}

inline void run_cluster(std::uint32_t peers, const peer_body& body) {
  causeway::net::memory_network network{peers};
  run_cluster(network, peers, body);
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_CLUSTER_HPP
