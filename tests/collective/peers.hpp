// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_COLLECTIVE_PEERS_HPP
#define CAUSEWAY_TESTS_COLLECTIVE_PEERS_HPP

// Runs one function per peer, each on a thread of its own, over a memory network.

#include <causeway/core/clock.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/memory_transport.hpp>

#include <cstring>
#include <optional>
#include <span>
#include <thread>
#include <vector>

namespace peer_threads {

using causeway::result;
using causeway::net::memory_network;
using causeway::net::memory_transport;
using causeway::net::message_id;
using causeway::net::peer_index;

inline const message_id some_id{.channel = 32, .epoch = 1, .step = 7, .parent = 99};

/// A moment on the steady clock that a test reaches only when it hangs.
inline causeway::time_point soon(int seconds = 300) {
  return causeway::steady_clock{}.now() + std::chrono::seconds{seconds};
}

/// What `f(transport)` gave on every peer. A peer closes its connections when it is done.
template <class F>
std::vector<result<void>> run(const memory_network& network, const F& f) {
  std::vector<result<void>> outcomes(network.size());
  std::vector<memory_transport> ends;
  for (peer_index p = 0; p < network.size(); ++p) ends.push_back(network.transport(p));
  std::vector<std::thread> threads;
  for (peer_index p = 0; p < network.size(); ++p) {
    threads.emplace_back([&, p] {
      memory_transport end = std::move(ends[p]);
      outcomes[p] = f(end);
    });
  }
  for (std::thread& t : threads) t.join();
  return outcomes;
}

inline bool all_succeeded(const std::vector<result<void>>& outcomes) {
  for (const auto& outcome : outcomes) {
    if (!outcome) return false;
  }
  return true;
}

/// Values of very different size, so that another order of addition gives another sum.
inline std::vector<float> values_of(peer_index peer, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bits = causeway::detail::scramble((std::uint64_t{peer} << 40U) + i + 1);
    const float mantissa = static_cast<float>(static_cast<std::int32_t>(bits >> 32U)) * 0x1.0p-31F;
    values[i] = mantissa * static_cast<float>(1U << (bits % 24U));
  }
  return values;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

}  // namespace peer_threads

#endif  // CAUSEWAY_TESTS_COLLECTIVE_PEERS_HPP
