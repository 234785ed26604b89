// SPDX-License-Identifier: Apache-2.0
#include "journal.hpp"

#include <causeway/membership/checker.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "elastic_place.hpp"
#include "settings.hpp"

namespace app {
namespace {

namespace fs = std::filesystem;
namespace membership = causeway::membership;
using causeway::errc;
using causeway::fail;

std::string read_all(const fs::path& path) {
  std::ifstream file{path};
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool is_journal(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with("journal") && name.ends_with(".txt");
}

// Of a peer, or of all peers one folder below.
std::vector<fs::path> journals_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator{folder, ignored}) {
    if (is_journal(entry.path())) found.push_back(entry.path());
    for (const auto& inner : fs::directory_iterator{entry.path(), ignored}) {
      if (is_journal(inner.path())) found.push_back(inner.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

using events = std::vector<membership::event>;

const membership::event* founding_of(const events& branch) {
  const auto at = std::find_if(branch.begin(), branch.end(),
                               [](const membership::event& e) { return e.what == membership::event::refound; });
  return at == branch.end() ? nullptr : &*at;
}

// A branch together with what it branched off, back to the first founding. errc::not_found where that is not here.
causeway::result<events> whole_run(const std::map<std::string, events>& runs, const events& branch) {
  const membership::event* founded = founding_of(branch);
  if (founded == nullptr) return branch;
  for (const auto& [name, other] : runs) {
    const bool parent = &other != &branch && std::any_of(other.begin(), other.end(), [&](const membership::event& e) {
      return e.what == membership::event::commit && e.chain == founded->parent;
    });
    if (!parent) continue;
    CAUSEWAY_ASSIGN(const events before, whole_run(runs, other));
    return membership::checker::branch_of(before, branch);
  }
  return fail(errc::not_found, "check-journal",
              "the run was founded anew on a round that no journal here knows; give the folders of its earlier peers, too");
}

causeway::result<void> read_events(const fs::path& path, events& into) {
  std::istringstream lines{read_all(path)};
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (lines.eof()) break;  // without its end: the process died while it wrote
    auto e = membership::parse_event(line);
    if (!e) return fail(errc::corrupt, path.string() + ":" + std::to_string(number), e.error().message);
    into.push_back(std::move(*e));
  }
  return {};
}

// The settings beside the journals say how many samples there are; without them that is not checked.
settings settings_near(const fs::path& folder) {
  settings s;
  origins ignored;
  for (const fs::path& place : {folder, folder.parent_path()}) {
    for (const char* name : {"settings-first.toml", "settings.toml"}) {
      const std::string text = read_all(place / name);
      if (!text.empty() && apply_toml(text, (place / name).string(), s, ignored)) return s;
    }
  }
  s.train.steps = 0;
  return s;
}

}  // namespace

causeway::result<journal_file> journal_file::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return fail(errc::io_failed, path, std::string{"cannot be written: "} + std::strerror(errno));
  return journal_file{fd};
}

journal_file::journal_file(journal_file&& other) noexcept : fd_{std::exchange(other.fd_, -1)} {}

journal_file::~journal_file() {
  if (fd_ >= 0) close(fd_);
}

void journal_file::write(const membership::event& e) {
  const std::string line = membership::to_line(e) + "\n";
  std::string_view rest = line;
  while (!rest.empty()) {
    const auto written = ::write(fd_, rest.data(), rest.size());
    if (written < 0 && errno != EINTR) return;  // a full disk: the run is worth more than its journal
    if (written > 0) rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string journal_name(const std::string& branch) {
  return branch.empty() ? "journal.txt" : "journal-" + branch + ".txt";
}

causeway::result<int> check_journals(const std::vector<std::string>& folders) {
  std::map<std::string, events> runs;  // by the name of the journal: a branch is a run of its own
  std::size_t files = 0;
  for (const std::string& folder : folders) {
    for (const fs::path& path : journals_in(folder)) {
      CAUSEWAY_TRY(read_events(path, runs[path.filename().string()]));
      ++files;
    }
  }
  if (files == 0) {
    return fail(errc::not_found, folders.front(), "no journal.txt here or one folder below; train with --run.journal true");
  }
  const settings s = settings_near(folders.front());
  const bool sized = s.train.steps > 0;
  std::optional<std::string> wrong;
  std::size_t count = 0;
  std::size_t commits = 0;
  std::uint64_t newest = 0;
  for (const auto& [name, run] : runs) {
    CAUSEWAY_ASSIGN(const events whole, whole_run(runs, run));
    if (!wrong) wrong = membership::checker::check_all(whole, sized ? quota_of(s) : 0, sized ? budget_of(s) : 0);
    count += run.size();
    for (const auto& e : run) {
      if (e.what != membership::event::commit) continue;
      ++commits;
      newest = std::max(newest, e.round);
    }
  }
  std::printf("%zu journals, %zu events, %zu commits, newest round %llu: %s\n", files, count, commits,
              static_cast<unsigned long long>(newest), wrong ? "NOT AS IT MUST BE" : "all as it must be");
  if (wrong) std::printf("%s\n", wrong->c_str());
  return wrong ? 1 : 0;
}

}  // namespace app
