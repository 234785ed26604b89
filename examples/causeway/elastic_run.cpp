// SPDX-License-Identifier: Apache-2.0
#include "elastic_run.hpp"

#include <algorithm>
#include <utility>

#include "addresses.hpp"
#include "corpus.hpp"
#include "launch.hpp"
#include "page_text.hpp"
#include "peer_folder.hpp"
#include "peer_process.hpp"
#include "refounding.hpp"
#include "run_folder.hpp"
#include "swarm_place.hpp"
#include "text_file.hpp"
#include "watch_run.hpp"
#include "welcome.hpp"

namespace app {
namespace {

using causeway::errc;
using causeway::fail;

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

causeway::result<int> run_peer(settings s, const std::string& folder, peer_folder mine, bool may_found, stop_watch& watch,
                               visit from = {}) {
  CAUSEWAY_TRY(validate(s));
  CAUSEWAY_ASSIGN(corpus data, prepare_corpus(s, folder));
  CAUSEWAY_TRY(check_text(folder, data.hash));
  CAUSEWAY_TRY(agree_on_store(s, folder));
  session_input in{s, std::move(data), folder, run_id_of(s), [] { return stop_requested().load(); }};
  CAUSEWAY_ASSIGN(const page_server page, serve_page(s, folder));
  peer_process process{std::move(in), std::move(mine), std::move(from.connection), std::move(from.said.assignments), watch};
  auto status = process.run(may_found);
  if (!s.quiet) (void)write_report(folder);
  return status;
}

}  // namespace

causeway::result<int> run_founder(settings s, stop_watch& watch) {
  const std::string folder = run_folder(s);
  if (s.run.refound) CAUSEWAY_TRY(refound_run(s, folder));
  CAUSEWAY_TRY(agree_on_settings(s, folder));
  CAUSEWAY_ASSIGN(peer_folder mine, peer_folder::claim(folder, std::max<std::int64_t>(s.net.index, 0)));
  return run_peer(s, folder, std::move(mine), true, watch);
}

causeway::result<int> run_joiner(settings s, bool new_here, stop_watch& watch) {
  const std::string folder = run_folder(s);
  CAUSEWAY_ASSIGN(peer_folder mine, peer_folder::claim(folder, s.net.index));
  visit there;
  if (new_here || (is_swarm(s) && !stage_before(mine))) {
    CAUSEWAY_ASSIGN(there, ask_for_welcome(s.net.join, run_id_of(s), s.net.patience));
  }
  return run_peer(s, folder, std::move(mine), false, watch, std::move(there));
}

causeway::result<int> run_sibling(settings s, const origins& from, stop_watch& watch, bool launched) {
  const std::string folder = run_folder(s);
  CAUSEWAY_TRY(check_run_name(s));
  const auto known = kept_settings(folder);
  if (!known) return fail(errc::not_found, settings_file(folder), "is started by causeway train, which makes it");
  CAUSEWAY_TRY(take_over(s, from, *known, "the run in " + folder));
  CAUSEWAY_ASSIGN(peer_folder mine, peer_folder::claim(folder, s.net.index));
  const bool first = s.net.index == 0;
  const std::string path = mine.path();
  auto status = run_peer(std::move(s), folder, std::move(mine), first, watch);
  if (status || !launched || !is_refusal(status.error().code)) return status;
  CAUSEWAY_TRY(note_refusal(path, status.error()));
  return 2;
}

std::string join_command(const settings& s, const std::vector<std::string>& addresses) {
  return join_lines(addresses, s.run.branch.empty() ? "" : " --run.branch " + s.run.branch);
}

}  // namespace app
