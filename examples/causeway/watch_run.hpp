// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_WATCH_RUN_HPP
#define CAUSEWAY_EXAMPLES_WATCH_RUN_HPP

// A run of this machine in the terminal, or on a page that no peer serves.

#include <causeway/core/result.hpp>

#include <string>

#include "page_server.hpp"
#include "settings.hpp"

namespace app {

/// The page of a run that trains here, if the settings ask for one; says where it is.
causeway::result<page_server> serve_page(const settings& s, const std::string& run_folder);

/// How the run stands, as a table.
std::string run_table(const std::string& run_folder);

/// Shows the run of the settings until a signal or its end; once, where the output is no terminal. With `watch.page` it
/// serves the page until a signal. The exit status.
causeway::result<int> watch_run(const settings& s);

/// Writes the report of the run anew.
causeway::result<int> report_run(const settings& s);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_WATCH_RUN_HPP
