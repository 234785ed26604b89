// SPDX-License-Identifier: Apache-2.0
#include "elastic_run.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "corpus.hpp"
#include "launch.hpp"
#include "peer_folder.hpp"
#include "peer_process.hpp"
#include "refounding.hpp"
#include "swarm_place.hpp"
#include "text_file.hpp"
#include "welcome.hpp"

namespace app {
namespace {

using causeway::errc;
using causeway::fail;

std::string settings_file(const std::string& folder) { return folder + "/settings.toml"; }

// Peers that train on other texts would train, and mean nothing.
causeway::result<void> check_text(const std::string& folder, std::uint64_t hash) {
  const std::string path = folder + "/text.hash";
  const std::string ours = std::to_string(hash) + "\n";
  const auto known = read_text(path);
  if (!known) return write_text(path, ours);
  if (*known == ours) return {};
  return fail(errc::wrong_model, "data.path",
              "this is another text, or cut into other tokens, than the run trains on; give the run's with --data.path");
}

// What a joiner has on disk about the run, unless it was told to go over to another founding of it.
std::optional<std::string> settings_known(const settings& s, const std::string& folder) {
  auto text = read_text(settings_file(folder));
  settings before;
  origins ignored;
  if (!text || !apply_toml(*text, settings_file(folder), before, ignored)) return std::nullopt;
  if (!s.run.branch.empty() && s.run.branch != before.run.branch) return std::nullopt;
  return std::move(*text);
}

causeway::result<int> run_peer(const settings& s, const std::string& folder, peer_folder mine, bool may_found,
                               stop_watch& watch, visit from = {}) {
  CAUSEWAY_TRY(validate(s));
  CAUSEWAY_ASSIGN(corpus data, prepare_corpus(s, folder));
  CAUSEWAY_TRY(check_text(folder, data.hash));
  session_input in{s, std::move(data), folder, run_id_of(s), [] { return stop_requested().load(); }};
  peer_process process{std::move(in), std::move(mine), std::move(from.connection), std::move(from.said.seats), watch};
  return process.run(may_found);
}

}  // namespace

causeway::result<void> agree_on_settings(settings& s, const std::string& folder) {
  const auto text = read_text(settings_file(folder));
  if (!text) return write_text(settings_file(folder), to_toml(s, true));
  settings before = s;
  origins ignored;
  CAUSEWAY_TRY(apply_toml(*text, settings_file(folder), before, ignored));
  if (s.run.branch.empty()) s.run.branch = before.run.branch;
  const std::string name = first_difference(s, before);
  if (name.empty()) return {};
  return fail(errc::wrong_model, name,
              "is not what the run in " + folder +
                  " was started with; leave it as it was, give the run another name with "
                  "--run.name, or start over with --run.fresh true");
}

causeway::result<int> run_founder(settings s, stop_watch& watch) {
  const std::string folder = run_folder(s);
  if (s.run.refound) CAUSEWAY_TRY(refound_run(s, folder));
  CAUSEWAY_TRY(agree_on_settings(s, folder));
  CAUSEWAY_ASSIGN(peer_folder mine, peer_folder::claim(folder, std::max<std::int64_t>(s.net.index, 0)));
  return run_peer(s, folder, std::move(mine), true, watch);
}

causeway::result<int> run_joiner(settings s, const origins& from, stop_watch& watch) {
  const std::string folder = run_folder(s);
  CAUSEWAY_ASSIGN(peer_folder mine, peer_folder::claim(folder, s.net.index));
  const auto known = settings_known(s, folder);
  visit there;
  if (known) {
    there.said.settings = *known;
  } else {
    CAUSEWAY_ASSIGN(there, ask_for_welcome(s.net.join, run_id_of(s), s.net.patience));
  }
  CAUSEWAY_TRY(take_over(s, from, there.said.settings, "the run at " + s.net.join));
  if (known && is_swarm(s) && !stage_before(mine)) {
    CAUSEWAY_ASSIGN(there, ask_for_welcome(s.net.join, run_id_of(s), s.net.patience));
  }
  if (!known) {
    CAUSEWAY_TRY(write_text(folder + "/text.hash", std::to_string(there.said.text_hash) + "\n"));
    CAUSEWAY_TRY(write_text(settings_file(folder), there.said.settings));
  }
  return run_peer(s, folder, std::move(mine), false, watch, std::move(there));
}

causeway::result<int> run_sibling(settings s, const origins& from, stop_watch& watch) {
  const std::string folder = run_folder(s);
  CAUSEWAY_ASSIGN(const std::string known, read_text(settings_file(folder)));
  CAUSEWAY_TRY(take_over(s, from, known, "the run in " + folder));
  CAUSEWAY_ASSIGN(peer_folder mine, peer_folder::claim(folder, s.net.index));
  const bool first = s.net.index == 0;
  return run_peer(s, folder, std::move(mine), first, watch);
}

std::string join_command(const settings& s, const std::string& address) {
  std::string command = "causeway join " + address + " --fault.policy quorum";
  const settings usual;
  if (s.run.name != usual.run.name) command += " --run.name " + s.run.name;
  if (s.run.seed != usual.run.seed) command += " --run.seed " + std::to_string(s.run.seed);
  if (!s.run.branch.empty()) command += " --run.branch " + s.run.branch;
  return command + " --data.path TEXT";
}

}  // namespace app
