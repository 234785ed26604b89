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

std::vector<fs::path> journals_in(const fs::path& folder) {
  if (fs::exists(folder / "journal.txt")) return {folder / "journal.txt"};
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator{folder, ignored}) {
    if (fs::exists(entry.path() / "journal.txt", ignored)) found.push_back(entry.path() / "journal.txt");
  }
  std::sort(found.begin(), found.end());
  return found;
}

causeway::result<void> read_events(const fs::path& path, std::vector<membership::event>& events) {
  std::istringstream lines{read_all(path)};
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (lines.eof()) break;  // without its end: the process died while it wrote
    auto e = membership::parse_event(line);
    if (!e) return fail(errc::corrupt, path.string() + ":" + std::to_string(number), e.error().message);
    events.push_back(std::move(*e));
  }
  return {};
}

// The settings beside the journals say how many samples there are; without them that is not checked.
settings settings_near(const fs::path& folder) {
  settings s;
  origins ignored;
  for (const fs::path& place : {folder, folder.parent_path()}) {
    const std::string text = read_all(place / "settings.toml");
    if (!text.empty() && apply_toml(text, (place / "settings.toml").string(), s, ignored)) return s;
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

causeway::result<int> check_journals(const std::vector<std::string>& folders) {
  std::vector<membership::event> events;
  std::size_t files = 0;
  for (const std::string& folder : folders) {
    for (const fs::path& path : journals_in(folder)) {
      CAUSEWAY_TRY(read_events(path, events));
      ++files;
    }
  }
  if (files == 0) {
    return fail(errc::not_found, folders.front(), "no journal.txt here or one folder below; train with --run.journal true");
  }
  const settings s = settings_near(folders.front());
  const bool sized = s.train.steps > 0;
  const auto wrong = membership::checker::check_all(events, sized ? quota_of(s) : 0, sized ? budget_of(s) : 0);
  std::size_t commits = 0;
  std::uint64_t newest = 0;
  for (const auto& e : events) {
    if (e.what != membership::event::commit) continue;
    ++commits;
    newest = std::max(newest, e.round);
  }
  std::printf("%zu journals, %zu events, %zu commits, newest round %llu: %s\n", files, events.size(), commits,
              static_cast<unsigned long long>(newest), wrong ? "NOT AS IT MUST BE" : "all as it must be");
  if (wrong) std::printf("%s\n", wrong->c_str());
  return wrong ? 1 : 0;
}

}  // namespace app
