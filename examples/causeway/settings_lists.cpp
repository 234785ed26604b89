// SPDX-License-Identifier: Apache-2.0
// What is done with the list of all settings.

#include <algorithm>
#include <string>
#include <utility>

#include "option.hpp"
#include "settings.hpp"

namespace app {

using causeway::errc;
using causeway::fail;

namespace {

constexpr std::size_t longest_name = 100;  // file systems allow 255, and we put more behind it

}  // namespace

causeway::result<void> check_run_name(const settings& s) {
  const std::string& name = s.run.name;
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7F; };
  const bool plain = !name.empty() && name.size() <= longest_name && name.front() != '.' &&
                     name.find_first_of("/\\") == std::string::npos && std::none_of(name.begin(), name.end(), is_control);
  if (plain) return {};
  return fail(errc::invalid_argument, "run.name",
              "use a plain name of up to " + std::to_string(longest_name) +
                  " bytes, without slashes and with no dot in front; run.directory says where its folder goes");
}

causeway::result<void> fill_in(settings& s, const origins& from, std::string_view text, const std::string& where) {
  settings theirs;
  origins ignored;
  CAUSEWAY_TRY(apply_toml(text, where, theirs, ignored));
  auto ours = table(s);
  const auto given = table(theirs);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (!ours[i].local && !from.contains(ours[i].name)) ours[i].set(given[i].get());
  }
  return {};
}

std::vector<std::string> local_flags(settings& s) {
  const auto is_launchers = [](const std::string& name) {
    const std::vector<std::string> own{"run.fresh",  "run.refound",    "run.restart",    "net.index",    "net.listen",
                                       "net.join",   "net.threads",    "parallel.stage", "quiet",        "net.announce",
                                       "watch.page", "fault.restarts", "servers.part",   "servers.parts"};
    return name.starts_with("sim.") || std::find(own.begin(), own.end(), name) != own.end();
  };
  settings usual;
  const auto defaults = table(usual);
  const auto ours = table(s);
  std::vector<std::string> flags;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (!ours[i].local || is_launchers(ours[i].name) || ours[i].get() == defaults[i].get()) continue;
    flags.insert(flags.end(), {"--" + ours[i].name, ours[i].get()});
  }
  return flags;
}

changed_setting change_of(const setting& now, const setting& then) {
  const auto shown = [](const std::string& value) { return value.empty() ? "empty" : value; };
  return {now.name, "is " + shown(now.get()) + ", and was " + shown(then.get())};
}

std::optional<changed_setting> first_change(settings now, settings then) {
  const auto ours = table(now);
  const auto theirs = table(then);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (!ours[i].local && ours[i].get() != theirs[i].get()) return change_of(ours[i], theirs[i]);
  }
  return std::nullopt;
}

}  // namespace app
