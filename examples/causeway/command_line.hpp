// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_COMMAND_LINE_HPP
#define CAUSEWAY_EXAMPLES_COMMAND_LINE_HPP

// The one grammar of all commands: causeway COMMAND [@FILE] [--name value | --name=value | --switch] [POSITIONAL].

#include <causeway/core/result.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "option.hpp"

namespace app {

/// A flag as it was given. Only switches may stand without a value.
struct given_flag {
  std::string name;
  std::optional<std::string> value;
};

struct command_line {
  std::string command;  ///< empty: none
  std::vector<given_flag> flags;
  std::vector<std::string> files;       ///< of @FILE
  std::vector<std::string> positional;  ///< what is neither a flag nor @FILE
  bool help = false;
  bool help_all = false;
};

/// Takes the words apart. `known` says which flags are switches: these take no value but "true" or "false".
command_line split(const std::vector<std::string>& arguments, std::vector<setting>& known);

/// Sets one of `all` by its name or alias. errc::invalid_argument with `where` in front: no such setting (the nearest is
/// named, and `list`, the command that lists all), or a text that does not fit.
causeway::result<const setting*> assign(std::vector<setting>& all, const std::string& name, const std::string& text,
                                        const std::string& where, const std::string& list);

/// Sets all flags; `note` hears of each which setting it was and how it is called there.
causeway::result<void> take_flags(const command_line& line, std::vector<setting>& all,
                                  const std::function<void(const setting&, const std::string&)>& note);

/// All of a command that has its own options: flags alone, and values that they may have.
causeway::result<void> take_options(const command_line& line, std::vector<setting> all);

/// errc::invalid_argument for the first setting whose value is none that it may have.
causeway::result<void> check_allowed(const std::vector<setting>& all, const std::string& prefix = {});

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_COMMAND_LINE_HPP
