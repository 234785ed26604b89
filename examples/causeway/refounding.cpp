// SPDX-License-Identifier: Apache-2.0
#include "refounding.hpp"

#include <causeway/core/clock.hpp>
#include <causeway/io/file.hpp>
#include <causeway/membership/refound.hpp>
#include <causeway/train/refound.hpp>
#include <causeway/train/write_behind.hpp>

#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "journal.hpp"
#include "launch.hpp"
#include "peer_folder.hpp"
#include "run_folder.hpp"
#include "text_file.hpp"
#include "welcome.hpp"

namespace app {
namespace {

namespace io = causeway::io;
using causeway::errc;
using causeway::fail;

causeway::result<std::vector<std::string>> idle_peers(const std::string& folder) {
  std::vector<std::string> paths;
  for (const sibling& peer : peers_on_disk(folder)) {
    const std::string path = folder + "/peer-" + std::to_string(peer.index);
    if (peer.running) {
      return fail(
          errc::invalid_argument, path,
          "runs (process " + std::to_string(peer.process) +
              "); a run is founded anew only when it cannot go on, and from folders that nobody uses: stop it first");
    }
    paths.push_back(path);
  }
  return paths;
}

// Nobody else may ever make up the same one: it keeps two foundings of one run apart.
std::string new_branch(const std::string& before) {
  char text[32];
  std::snprintf(text, sizeof text, "%08x", static_cast<unsigned>(fresh_secret()));
  const auto generation = before.empty() ? 1 : std::stoul("0" + before.substr(0, before.find('-'))) + 1;
  return std::to_string(generation) + "-" + text;
}

// The settings of the run, but for how many peers it waits for. The first ones say how many samples it has.
causeway::result<settings> settings_before(const settings& wanted, const std::string& folder) {
  const std::string path = settings_file(folder);
  CAUSEWAY_ASSIGN(const std::string text, read_text(path));
  settings before = wanted;
  origins ignored;
  CAUSEWAY_TRY(apply_toml(text, path, before, ignored));
  settings same = before;
  same.net.peers = wanted.net.peers;
  same.fault.min_peers = wanted.fault.min_peers;
  same.run.branch = wanted.run.branch;
  if (const auto changed = first_change(wanted, same)) {
    return fail(errc::wrong_model, changed->name,
                changed->values + " in the run in " + folder + "; only net.peers and fault.min_peers may change");
  }
  if (before.run.branch.empty()) CAUSEWAY_TRY(write_text(folder + "/settings-first.toml", text));
  return before;
}

// Its peers were killed, perhaps between a commit and its line in the journal.
causeway::result<void> complete_journals(io::any_storage& storage, const std::vector<std::string>& peers,
                                         const settings& before) {
  for (const std::string& path : peers) {
    const auto record = causeway::detail::read_member_record(storage, path);
    const std::string file = path + "/" + journal_name(before.run.branch);
    if (!record || record->run != run_id_of(before) || !std::filesystem::exists(file)) continue;
    CAUSEWAY_ASSIGN(auto journal, journal_file::open(file));
    for (const auto& e : causeway::membership::last_words(*record, causeway::steady_clock{}.now())) journal.write(e);
  }
  return {};
}

}  // namespace

causeway::result<void> refound_run(settings& s, const std::string& folder) {
  CAUSEWAY_ASSIGN(const auto peers, idle_peers(folder));
  CAUSEWAY_ASSIGN(const settings before, settings_before(s, folder));
  s.run.branch = new_branch(before.run.branch);
  CAUSEWAY_ASSIGN(const peer_folder mine, peer_folder::claim(folder, 0));
  io::any_storage storage{io::posix_storage{}};
  const auto known = causeway::newest_round_known(storage, peers, run_id_of(s));
  if (s.run.journal) CAUSEWAY_TRY(complete_journals(storage, peers, before));  // while records are those of before
  CAUSEWAY_ASSIGN(const auto founded,
                  causeway::refound(storage, peers, mine.path(), run_id_of(s), fresh_identity(mine.index())));
  if (s.run.journal) {
    CAUSEWAY_ASSIGN(auto journal, journal_file::open(mine.path() + "/" + journal_name(s.run.branch)));
    journal.write(causeway::membership::refound_event(founded));
  }
  CAUSEWAY_TRY(keep_settings(s, folder));
  std::printf(
      "the run is founded anew on its round %llu, as branch %s: %llu samples are in commits, the others will be trained "
      "on\n"
      "peers elsewhere come over with --run.branch %s; leave --run.refound out the next time\n",
      static_cast<unsigned long long>(founded.newest->round - 1), s.run.branch.c_str(),
      static_cast<unsigned long long>(founded.samples.done()), s.run.branch.c_str());
  const std::uint64_t from = founded.newest->round - 1;
  if (known && *known > from) {
    std::printf(
        "rounds %llu to %llu are lost: their state is on no disk here, and what was trained in them is trained again. "
        "fault.store_every 1 keeps every round\n",
        static_cast<unsigned long long>(from + 1), static_cast<unsigned long long>(*known));
  }
  std::fflush(stdout);
  return {};
}

}  // namespace app
