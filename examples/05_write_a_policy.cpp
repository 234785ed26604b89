// SPDX-License-Identifier: Apache-2.0
// ctest: 60
// A communication policy of one's own, in random_pair.hpp: every ten steps each peer averages with a random partner. No
// message ever goes to all.
// usage: 05_write_a_policy [STEPS]
#include <causeway/comm/every_step.hpp>

#include <cstdlib>

#include "random_pair.hpp"
#include "several_peers.hpp"

causeway::result<bool> compare(int steps) {
  const auto usual = [] { return causeway::comm::every_step<>{}; };
  CAUSEWAY_ASSIGN(const ending all, train_four("every step, all peers", usual, steps));
  CAUSEWAY_ASSIGN(const ending pairs, train_four(
                                          "random pairs, our own policy", [] { return random_pair{10}; }, steps));
  return pairs.bytes < all.bytes / 8 && pairs.loss < all.loss + 1;
}

int main(int argc, char** argv) { return status_of(compare(argc > 1 ? std::atoi(argv[1]) : 200)); }
