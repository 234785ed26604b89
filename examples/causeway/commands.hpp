// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_COMMANDS_HPP
#define CAUSEWAY_EXAMPLES_COMMANDS_HPP

// What the program can do, as data: help, the manual page and the completion of shells are written from it.

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "option.hpp"

namespace app {

/// Settings that belong together, under a title.
struct setting_group {
  std::string title;
  std::vector<std::string> names;
};

struct command {
  std::string name;
  std::string synopsis;                                       ///< what follows the name
  std::string summary;                                        ///< one line
  std::vector<setting_group> common;                          ///< what --help shows; --help-all shows all settings
  std::vector<std::pair<std::string, std::string>> examples;  ///< a command line, and what it does
  std::string more;                                           ///< after the options
  std::function<std::vector<setting>()> options = {};         ///< of commands that have their own; else those of runs
};

const std::vector<command>& all_commands();
/// Null if there is none of that name.
const command* find_command(std::string_view name);

/// What the program is and its commands: `causeway help`.
std::string overview();
/// `causeway COMMAND --help`, or with all settings.
std::string help_of(const command& c, bool all);
/// The options of a command with their defaults: its own, or the settings of runs.
std::vector<setting> options_of(const command& c);
/// The default as text; "by policy" where each communication policy has its own.
std::string default_text(const setting& s);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_COMMANDS_HPP
