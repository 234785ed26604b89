// SPDX-License-Identifier: Apache-2.0
#include "join_run.hpp"

#include <causeway/net/asio_ask.hpp>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "corpus.hpp"
#include "launch.hpp"
#include "option.hpp"
#include "run_folder.hpp"
#include "run_notice.hpp"
#include "stop.hpp"
#include "text_file.hpp"

namespace app {
namespace {

namespace fs = std::filesystem;
namespace net = causeway::net;
using causeway::errc;
using causeway::fail;

// A run of changing peers that is on this machine's disk.
struct known_run {
  std::string folder;
  std::string toml;
  settings kept{};
};

std::string joined_file(const std::string& folder) { return folder + "/joined-at"; }

std::optional<known_run> known_in(const std::string& folder) {
  auto text = kept_settings(folder);
  known_run known{folder, text.value_or(""), {}};
  origins ignored;
  if (!text || !apply_toml(known.toml, settings_file(folder), known.kept, ignored)) return std::nullopt;
  if (known.kept.fault.policy != "quorum") return std::nullopt;
  return known;
}

// The run that was named, or the one that was joined at this address before.
std::optional<known_run> known_here(const settings& s, const origins& from) {
  if (s.run.fresh) return std::nullopt;
  if (from.contains("run.name")) return known_in(run_folder(s));
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator{s.run.directory, ignored}) {
    if (read_word(joined_file(entry.path().string())) == s.net.join) return known_in(entry.path().string());
  }
  return std::nullopt;
}

causeway::result<net::inquiry> ask(const settings& s, bool once) {
  CAUSEWAY_ASSIGN(const net::endpoint address, net::parse_endpoint(s.net.join));
  const auto patience = std::chrono::seconds{once ? std::min(s.net.patience, 5U) : s.net.patience};
  return net::inquiry::open(address, {causeway::steady_clock{}.now() + patience, &stop_requested(), once});
}

// A name, a seed and a branch tell one run from another.
causeway::result<void> is_the_run(const settings& s, const origins& from, const std::string& theirs) {
  settings wanted = s, there = s;
  origins ignored;
  CAUSEWAY_TRY(apply_toml(theirs, "the settings of the run at " + s.net.join, there, ignored));
  const auto ours = table(wanted);
  const auto others = table(there);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const std::string& name = ours[i].name;
    if (name != "run.name" && name != "run.seed" && name != "run.branch") continue;
    if (!from.contains(name) || ours[i].get() == others[i].get()) continue;
    return fail(errc::wrong_run, s.net.join,
                "serves the run whose " + name + " is '" + others[i].get() + "'; leave --" + name +
                    " out to join that one, or give an address of the other");
  }
  return {};
}

// Who was in a run that was founded anew meanwhile is not taken over to the new one without his word.
causeway::result<void> is_same_branch(const settings& s, const origins& from, const std::optional<known_run>& known) {
  if (!known || known->kept.run.branch == s.run.branch || from.contains("run.branch")) return {};
  return fail(errc::wrong_run, s.net.join,
              "the run was founded anew since this machine was in it; come over with --run.branch " + s.run.branch);
}

causeway::result<joined_run> join_known(settings s, const origins& from, const known_run& known) {
  CAUSEWAY_TRY(take_over(s, from, known.toml, "the run in " + known.folder));
  CAUSEWAY_TRY(make_run_folder(s));
  return joined_run{std::move(s), false};
}

causeway::result<joined_run> join_told(settings s, const origins& from, net::inquiry& there) {
  CAUSEWAY_ASSIGN(const run_notice notice, run_notice::decode(there.about()));
  CAUSEWAY_TRY(is_the_run(s, from, notice.settings));
  CAUSEWAY_TRY(take_over(s, from, notice.settings, "the run at " + s.net.join));
  CAUSEWAY_TRY(validate(s));  // above all the name: a folder is made of it
  const std::string folder = run_folder(s);
  const auto known = known_in(folder);
  CAUSEWAY_TRY(is_same_branch(s, from, known));
  const bool new_here = !known || known->kept.run.branch != s.run.branch;
  CAUSEWAY_TRY(make_run_folder(s));
  if (s.data.path.empty()) CAUSEWAY_TRY(fetch_text(there, notice, s, folder));
  if (s.fault.policy == "quorum" && new_here) {
    CAUSEWAY_TRY(write_text(folder + "/text.hash", std::to_string(notice.text_hash) + "\n"));
    CAUSEWAY_TRY(keep_settings(s, folder));
  }
  CAUSEWAY_TRY(write_text(joined_file(folder), s.net.join + "\n"));
  return joined_run{std::move(s), new_here};
}

}  // namespace

causeway::result<joined_run> learn_run(settings s, const origins& from) {
  CAUSEWAY_TRY(check_run_name(s));
  const auto known = known_here(s, from);
  auto there = ask(s, known.has_value());
  if (there) return join_told(std::move(s), from, *there);
  if (known && there.error().code == errc::unreachable) return join_known(std::move(s), from, *known);
  return there.error();
}

}  // namespace app
