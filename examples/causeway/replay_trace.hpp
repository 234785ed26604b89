// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_REPLAY_TRACE_HPP
#define CAUSEWAY_EXAMPLES_REPLAY_TRACE_HPP

// `causeway replay`: how much is trained while instances come and go as a trace says, policy by policy.

#include <causeway/core/result.hpp>

#include <vector>

#include "command_line.hpp"
#include "option.hpp"

namespace app {

/// The options with their defaults, to be shown.
std::vector<setting> replay_options();

/// The command line of `causeway replay`. Prints a table; 0.
causeway::result<int> replay_trace(const command_line& line);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_REPLAY_TRACE_HPP
