// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_DRAW_SCHEDULE_HPP
#define CAUSEWAY_EXAMPLES_DRAW_SCHEDULE_HPP

// `causeway schedule`: a schedule of a pipeline on given costs, as a picture and as figures.

#include <causeway/core/result.hpp>

#include <string>
#include <vector>

namespace app {

/// What follows the word `schedule` on the command line. Prints the picture; 0.
causeway::result<int> draw_schedule(const std::vector<std::string>& arguments);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_DRAW_SCHEDULE_HPP
