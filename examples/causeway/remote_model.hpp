// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_REMOTE_MODEL_HPP
#define CAUSEWAY_EXAMPLES_REMOTE_MODEL_HPP

// A model of which servers hold the larger part: experts that learn there (parallel::expert_gpt), or the frozen blocks of a
// stored model (parallel::tuned_model). Its parameters are what this peer trains.

#include <causeway/core/result.hpp>

#include "chosen_model.hpp"
#include "session_input.hpp"

namespace app {

/// Tells `in` of its connections. Connects to the servers at `servers.at`, and waits up to net.patience seconds until they
/// serve everything; errc::timeout where they do not. errc::not_found, wrong_model: see check_start.
causeway::result<chosen_model> make_remote_model(session_input& in);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_REMOTE_MODEL_HPP
