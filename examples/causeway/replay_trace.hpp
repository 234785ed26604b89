// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_REPLAY_TRACE_HPP
#define CAUSEWAY_EXAMPLES_REPLAY_TRACE_HPP

// `causeway replay`: how much is trained while instances come and go as a trace says, policy by policy.

#include <causeway/core/result.hpp>

#include <string>
#include <vector>

namespace app {

/// What follows the word `replay` on the command line. Prints a table; 0.
causeway::result<int> replay_trace(const std::vector<std::string>& arguments);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_REPLAY_TRACE_HPP
