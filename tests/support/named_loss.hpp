// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_NAMED_LOSS_HPP
#define CAUSEWAY_TESTS_SUPPORT_NAMED_LOSS_HPP

// Runs of three peers of which the second is lost at each of its network operations in turn.

#include <cstdint>

#include "support/catch.hpp"
#include "support/simulated_runs.hpp"

namespace support {

/// Whoever does not finish then has an error that names a peer. Gives how often that was so. `runs`: of simulated_runs.
template <class Runs>
std::uint64_t others_name_the_lost(Runs& runs) {
  std::uint64_t named = 0;
  for (std::uint64_t n = 0;; ++n) {
    INFO("killed at its network operation " << n);
    const auto broken = runs.run({}, {1, n});
    if (broken.peers[1].finished) return named;
    for (const std::uint32_t p : {0U, 2U}) {
      if (broken.peers[p].finished) continue;
      REQUIRE(broken.peers[p].error);
      CHECK(broken.peers[p].error->where.find("peer ") == 0);
      ++named;
    }
  }
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_NAMED_LOSS_HPP
