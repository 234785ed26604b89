// SPDX-License-Identifier: Apache-2.0
#include "page_text.hpp"

#include <string_view>

#include "run_folder.hpp"
#include "run_records.hpp"
#include "text_file.hpp"

namespace app {

extern const std::string_view page_html;  // made of page/page.html when the program is built

namespace {

constexpr std::string_view place_of_the_run = "/*the run*/ null";

// Inside a script, no text may look like its end.
std::string inside_a_script(const std::string& json) {
  std::string safe;
  safe.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

}  // namespace

std::string page_text(const std::optional<std::string>& state) {
  std::string page{page_html};
  if (state) page.replace(page.find(place_of_the_run), place_of_the_run.size(), inside_a_script(*state));
  return page;
}

causeway::result<void> write_report(const std::string& run_folder) {
  if (!kept_settings(run_folder)) {  // nothing of ours is put into a folder of somebody else's
    return causeway::fail(causeway::errc::not_found, settings_file(run_folder),
                          "is in every folder of a run; name another one");
  }
  run_records records{run_folder};
  records.refresh();
  return write_text(run_folder + "/report.html", page_text(records.state(0, 0)));
}

}  // namespace app
