// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_ELASTIC_END_HPP
#define CAUSEWAY_TESTS_SUPPORT_ELASTIC_END_HPP

// A whole run of a simulated cluster, and what always holds at its end.

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "support/catch.hpp"
#include "support/elastic.hpp"

namespace support {

/// Boots all peers, lets `during` do what it does to them, and runs to the end: every promise was kept, all have finished,
/// every sample counts, and all hold the same bits, which are returned.
inline std::vector<float> alike_at_the_end(elastic_run& cluster, const elastic_options& options,
                                           const std::function<void(elastic_run&)>& during = {}) {
  using namespace std::chrono_literals;
  for (std::uint32_t host = 0; host < (options.expected > 0 ? options.expected : options.peers); ++host) {
    cluster.boot(host);
  }
  if (during) during(cluster);
  cluster.run(10min);
  INFO(cluster.violation().value_or("no violation"));
  REQUIRE(!cluster.violation());
  REQUIRE(cluster.finished() == options.peers);
  CHECK(cluster.checker().samples().done() == cluster.budget());
  auto parameters = cluster.parameters(0);
  for (std::uint32_t host = 1; host < options.peers; ++host) {
    const bool alike = cluster.parameters(host) == parameters;
    CHECK(alike);
  }
  return parameters;
}

/// The run has ended: every promise was kept, `peers` have finished, every sample counts, and all hold the same bits.
template <class Cluster>
void all_ended_alike(Cluster& cluster, std::uint32_t peers) {
  INFO(cluster.violation().value_or("no violation"));
  REQUIRE(!cluster.violation());
  REQUIRE(cluster.finished() == peers);
  CHECK(cluster.checker().samples().done() == cluster.budget());
  for (std::uint32_t i = 1; i < peers; ++i) CHECK(cluster.parameters(i) == cluster.parameters(0));
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_ELASTIC_END_HPP
