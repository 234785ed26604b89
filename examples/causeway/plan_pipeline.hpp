// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_PLAN_PIPELINE_HPP
#define CAUSEWAY_EXAMPLES_PLAN_PIPELINE_HPP

// `causeway plan`: who should hold which stage of which replica, and what a step would take.

#include <causeway/core/result.hpp>

#include <vector>

#include "command_line.hpp"
#include "option.hpp"

namespace app {

/// The options with their defaults, to be shown.
std::vector<setting> plan_options();

/// The command line of `causeway plan`. Prints the plan; 0.
causeway::result<int> plan_pipeline(const command_line& line);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_PLAN_PIPELINE_HPP
