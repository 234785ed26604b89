// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_NAMED_PRESETS_HPP
#define CAUSEWAY_EXAMPLES_NAMED_PRESETS_HPP

// Published systems by one name, --preset: those that are a communication policy have its name, those that say how peers
// hold stages are several settings together. What was set otherwise is left as it is.

#include <causeway/core/result.hpp>

#include <string>

#include "settings.hpp"

namespace app {

/// Whether run.preset is empty or a name: of a policy, or of a system of several settings.
causeway::result<void> check_preset(const settings& s);

/// Gives the settings that nobody set (`from`) the values that run.preset has for them, and says so in `from`.
void take_preset(settings& s, origins& from);

/// Each system of several settings with what it is and what it sets.
std::string preset_help();

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_NAMED_PRESETS_HPP
