// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_SIMULATE_HPP
#define CAUSEWAY_EXAMPLES_SIMULATE_HPP

// `causeway simulate`: any training on a simulated network.

#include <causeway/core/result.hpp>

#include "settings.hpp"

namespace app {

/// Simulates `s` with `s.sim.seeds` seeds, and prints what came of it. Stops at the first seed whose run broke a rule, and
/// prints the command that replays it: then 1, else 0; 130 where a signal ended it.
causeway::result<int> simulate(settings s);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_SIMULATE_HPP
