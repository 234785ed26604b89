// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_RUN_MODEL_HPP
#define CAUSEWAY_EXAMPLES_RUN_MODEL_HPP

// From the model of the settings to a run that trains it, or to a text that it writes.

#include <causeway/core/result.hpp>

#include <string>

#include "chosen_model.hpp"
#include "training.hpp"

namespace app {

/// Trains the model of the settings to the end of the run; every peer of the run calls it.
causeway::result<session_summary> run_model(training t);

/// The model of the run as it was saved last, gathered from what its peers left on this machine.
causeway::result<chosen_model> trained_model(const settings& s, text_codec& codec);

/// The prompt and what the paths of a run say after it: every `comm.route_within` tokens the text is sent to a path by its
/// last `comm.route_prefix`, whose model goes on. Models are loaded when they are first needed, and kept.
causeway::result<void> write_by_paths(const settings& s, text_codec& codec, const text_sink& to);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_RUN_MODEL_HPP
