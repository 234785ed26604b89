// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_ROWS_BY_CLOCK_HPP
#define CAUSEWAY_TESTS_SUPPORT_ROWS_BY_CLOCK_HPP

// Policies of peers that meet by the clock, for runs on the simulator whose steps take 50 ms.

#include <causeway/axis/every_seconds.hpp>
#include <causeway/comm/rounds.hpp>

namespace support {

/// Parameters, after each step.
inline auto parameters_by_clock() {
  using namespace causeway;
  return comm::rounds{axis::every_seconds{{.seconds = 0, .fewest_steps = 1}}, axis::parameters{}, axis::split_mean<>{}};
}

/// Pseudo-gradients after every fourth step, whose mean is taken four steps later.
inline auto late_by_clock() {
  using namespace causeway;
  return comm::rounds{axis::every_seconds{{.seconds = 0.19, .fewest_steps = 2}}, axis::one_round_late{},
                      axis::split_mean<>{}};
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_ROWS_BY_CLOCK_HPP
