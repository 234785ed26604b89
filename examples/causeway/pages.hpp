// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_PAGES_HPP
#define CAUSEWAY_EXAMPLES_PAGES_HPP

// Files that are written from the tables of settings and commands: `causeway config reference | completion | manual`.

#include <string>

namespace app {

/// docs/reference/settings.md
std::string settings_page();
/// For bash: commands, flags, and the values of settings that take one of some words.
std::string bash_completion();
/// causeway(1), in roff.
std::string manual_page();

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_PAGES_HPP
