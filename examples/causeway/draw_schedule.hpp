// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_DRAW_SCHEDULE_HPP
#define CAUSEWAY_EXAMPLES_DRAW_SCHEDULE_HPP

// `causeway schedule`: a schedule of a pipeline on given costs, as a picture and as figures.

#include <causeway/core/result.hpp>

#include <vector>

#include "command_line.hpp"
#include "option.hpp"

namespace app {

/// The options with their defaults, to be shown.
std::vector<setting> schedule_options();

/// The command line of `causeway schedule`. Prints the picture; 0.
causeway::result<int> draw_schedule(const command_line& line);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_DRAW_SCHEDULE_HPP
