// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_PLAN_PIPELINE_HPP
#define CAUSEWAY_EXAMPLES_PLAN_PIPELINE_HPP

// `causeway plan`: who should hold which stage of which replica, and what a step would take.

#include <causeway/core/result.hpp>

#include <string>
#include <vector>

namespace app {

/// What follows the word `plan` on the command line. Prints the plan; 0.
causeway::result<int> plan_pipeline(const std::vector<std::string>& arguments);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_PLAN_PIPELINE_HPP
