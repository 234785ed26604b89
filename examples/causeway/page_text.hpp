// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_PAGE_TEXT_HPP
#define CAUSEWAY_EXAMPLES_PAGE_TEXT_HPP

// The page on which a run is watched, and the report that it leaves: the same file, page/page.html, which gets the run from
// a server or has it inside.

#include <causeway/core/result.hpp>

#include <optional>
#include <string>

namespace app {

/// `state`: the run that the page shows (run_records::state); none: it asks where it came from.
std::string page_text(const std::optional<std::string>& state);

/// Writes report.html into the folder of a run, from what its peers have written down so far.
causeway::result<void> write_report(const std::string& run_folder);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_PAGE_TEXT_HPP
