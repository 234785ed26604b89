// SPDX-License-Identifier: Apache-2.0
#include "metrics.hpp"

#include <causeway/io/file.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <utility>

#include "json_line.hpp"
#include "peer_folder.hpp"
#include "tensorboard.hpp"
#include "text_file.hpp"

namespace app {
namespace {

using causeway::errc;
using causeway::fail;
using causeway::formats::json_value;
using clock = std::chrono::steady_clock;

double unix_seconds() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// The number after "key": in one of our own lines.
double number_after(const std::string& line, const char* key) {
  const auto at = line.find(key);
  return at == std::string::npos ? 0 : std::strtod(line.c_str() + at + std::char_traits<char>::length(key), nullptr);
}

bool is_kind(const std::string& line, const char* kind) {
  return line.find(std::string{"\"kind\":\""} + kind + "\"") != std::string::npos;
}

// Of what was trained, in contrast to what happened.
bool belongs_to_a_step(const std::string& line) {
  return is_kind(line, "step") || is_kind(line, "round") || is_kind(line, "validation");
}

// The process before died while it wrote.
bool ends_within_a_line(const std::string& path) {
  std::ifstream file{path};
  file.seekg(-1, std::ios::end);
  const int last = file.get();
  return file && last != '\n';
}

std::string hexadecimal(std::uint64_t v) {
  char text[24];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(v));
  return text;
}

std::string to_json(const link_use& l) {
  json_line j;
  j.add("peer", std::to_string(l.peer));
  if (!l.address.empty()) j.add("address", l.address);
  j.add("up", l.up).add("bytes_sent", l.bytes_sent).add("bytes_received", l.bytes_received);
  return j.add("sending_seconds", l.sending_seconds).add("waited_seconds", l.waited_seconds).text();
}

std::string told_json(const link_use& l, const told_figures& f) {
  json_line j;
  j.add("peer", std::to_string(l.peer));
  if (!l.address.empty()) j.add("address", l.address);
  j.add("step", f.step).add("round", f.round).add("loss", f.loss).add("tokens_per_second", f.tokens_per_second);
  return j.add("bytes_sent", f.bytes_sent).add("blocked_seconds", f.blocked_seconds).text();
}

// Peers that come and go are known by where they listen, fixed ones by their number.
bool is_on_this_machine(const link_use& l, const std::vector<sibling>& here) {
  return std::any_of(here.begin(), here.end(), [&](const sibling& s) {
    return s.running && (l.address.empty() ? s.index == l.peer : s.address == l.address);
  });
}

const char* name_of(causeway::severity level) {
  switch (level) {
    case causeway::severity::debug: return "debug";
    case causeway::severity::info: return "info";
    case causeway::severity::warning: return "warning";
    case causeway::severity::waiting: return "waiting";
    case causeway::severity::error: break;
  }
  return "error";
}

}  // namespace

struct metrics_file::state {
  static constexpr std::chrono::milliseconds flush_every{250};
  static constexpr std::chrono::seconds links_every{1};
  static constexpr std::chrono::seconds told_every{2};
  static constexpr std::size_t most_told = 64;  // in a line

  std::mutex mutex;
  std::string path;
  std::uint32_t peer = 0;
  std::ofstream file;
  std::optional<tensorboard_file> board;
  clock::time_point flushed{};
  clock::time_point links_written{};
  clock::time_point told_written{};
  std::uint64_t step = 0;
  std::uint64_t round = 0;

  json_line line(const char* kind) const {
    json_line j;
    j.add("schema", metrics_schema).add("kind", kind).moment("ts", unix_seconds()).add("peer", peer);
    j.add("step", step).add("round", round);
    return j;
  }
  void write(const json_line& j, bool at_once) {
    file << j.text() << '\n';
    const auto now = clock::now();
    if (!at_once && now - flushed < flush_every) return;
    flushed = now;
    file.flush();
    if (board) board->flush();
  }
  void chart(const char* name, double value) {
    if (board) board->scalar(unix_seconds(), step, name, value);
  }
};

causeway::result<metrics_file> metrics_file::open(const std::string& folder, std::uint32_t peer, bool tensorboard) {
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  metrics_file opened;
  opened.state_ = std::make_shared<state>();
  state& s = *opened.state_;
  s.path = folder + "/metrics.jsonl";
  s.peer = peer;
  s.file.open(s.path, std::ios::app);
  if (!s.file) return fail(errc::io_failed, s.path, "metrics cannot be written here; check the folder and the disk");
  if (ends_within_a_line(s.path)) s.file << '\n';
  if (tensorboard) {
    CAUSEWAY_ASSIGN(s.board, tensorboard_file::open(folder, unix_seconds()));
  }
  return opened;
}

void metrics_file::started(const peer_start& who) {
  if (!state_) return;
  const std::lock_guard lock{state_->mutex};
  json_line j = state_->line("start");
  j.add("id", std::to_string(who.id));
  if (!who.address.empty()) j.add("address", who.address);
  if (who.stage >= 0) j.add("stage", who.stage);
  state_->write(j, true);
}

// The new file takes the old one's place as a whole, so that who reads along sees another file.
causeway::result<void> metrics_file::resume_at(std::uint64_t step, std::uint64_t round, std::int64_t parameters) {
  if (!state_) return {};
  state& s = *state_;
  const std::lock_guard lock{s.mutex};
  s.file.flush();
  std::string kept;
  bool dropped = false;
  std::ifstream old{s.path};
  for (std::string line; std::getline(old, line);) {
    const bool later = belongs_to_a_step(line) && number_after(line, "\"step\":") > static_cast<double>(step);
    const bool keep = line.ends_with('}') && !later;
    if (keep) kept += line + "\n";
    dropped = dropped || !keep;
  }
  if (dropped) {
    s.file.close();
    CAUSEWAY_TRY(write_text(s.path, kept));
    s.file.open(s.path, std::ios::app);
    if (!s.file) return fail(errc::io_failed, s.path, "metrics cannot be written here; check the folder and the disk");
  }
  s.step = step;
  s.round = round;
  s.write(s.line("in").add("parameters", parameters), true);
  return {};
}

void metrics_file::stepped(const causeway::step_report& r) {
  if (!state_) return;
  state& s = *state_;
  const std::lock_guard lock{s.mutex};
  s.step = r.step;
  s.round = r.round;
  json_line j = s.line("step");
  j.add("loss", r.loss).add("learning_rate", static_cast<double>(r.learning_rate));
  j.add("gradient_norm", static_cast<double>(r.gradient_norm)).add("tokens", r.tokens);
  j.add("compute_seconds", r.compute_seconds).add("exchange_seconds", r.exchange_seconds);
  s.chart("loss", r.loss);
  s.chart("learning_rate", static_cast<double>(r.learning_rate));
  s.chart("gradient_norm", static_cast<double>(r.gradient_norm));
  s.write(j, false);
}

void metrics_file::committed(const round_news& n) {
  if (!state_) return;
  state& s = *state_;
  const std::lock_guard lock{s.mutex};
  s.step = n.step;
  s.round = n.round;
  json_line j = s.line("round");
  j.add("state", hexadecimal(n.state)).add("peers", n.peers).add("tokens_per_second", n.tokens_per_second);
  j.add("bytes_sent", n.bytes_sent).add("bytes_received", n.bytes_received).add("blocked_seconds", n.blocked_seconds);
  if (n.validation > 0) j.add("validation_loss", n.validation);
  if (!n.shares.empty()) j.raw("shares", json_list(n.shares, [](std::uint32_t v) { return std::to_string(v); }));
  s.chart("peers", n.peers);
  s.chart("tokens_per_second", n.tokens_per_second);
  s.chart("bytes_sent", static_cast<double>(n.bytes_sent));
  if (n.validation > 0) s.chart("validation_loss", n.validation);
  s.write(j, false);
}

void metrics_file::validated(std::uint64_t step, std::uint64_t round, double loss) {
  if (!state_) return;
  state& s = *state_;
  const std::lock_guard lock{s.mutex};
  s.step = step;
  s.round = round;
  s.chart("validation_loss", loss);
  s.write(s.line("validation").add("validation_loss", loss), true);
}

void metrics_file::links(const link_meter& meter, bool now) {
  if (!state_) return;
  state& s = *state_;
  const std::lock_guard lock{s.mutex};
  if (!now && clock::now() - s.links_written < state::links_every) return;
  s.links_written = clock::now();
  s.write(s.line("links").raw("links", json_list(meter.all(), to_json)), false);
}

void metrics_file::told(const link_meter& meter, const std::string& run, bool now) {
  if (!state_) return;
  state& s = *state_;
  const std::lock_guard lock{s.mutex};
  if (!now && clock::now() - s.told_written < state::told_every) return;
  s.told_written = clock::now();
  const auto here = peers_on_disk(run);
  std::vector<std::string> others;
  for (const link_use& l : meter.all()) {
    if (l.told && others.size() < state::most_told && !is_on_this_machine(l, here)) others.push_back(told_json(l, *l.told));
  }
  if (others.empty()) return;
  s.write(s.line("told").raw("others", json_list(others, [](const std::string& text) { return text; })), false);
}

void metrics_file::event(causeway::severity level, std::string_view text) {
  if (!state_) return;
  const std::lock_guard lock{state_->mutex};
  state_->write(state_->line("event").add("level", name_of(level)).add("text", text), true);
}

void metrics_file::ended(std::uint64_t step, std::uint64_t round, bool interrupted) {
  if (!state_) return;
  state& s = *state_;
  const std::lock_guard lock{s.mutex};
  s.step = step;
  s.round = round;
  s.write(s.line("end").add("interrupted", interrupted), true);
}

void write_run_event(const std::string& run, std::int64_t peer, std::string_view what, std::string_view text) {
  json_line j;
  j.add("schema", metrics_schema).add("kind", "event").moment("ts", unix_seconds()).add("peer", peer);
  j.add("what", what).add("text", text);
  std::ofstream{run + "/events.jsonl", std::ios::app} << j.text() + "\n";
}

run_losses read_losses(const std::vector<std::string>& peer_folders) {
  run_losses found;
  for (const std::string& folder : peer_folders) {
    std::vector<loss_point> training;
    std::ifstream file{folder + "/metrics.jsonl"};
    for (std::string line; std::getline(file, line);) {
      const auto step = static_cast<std::uint64_t>(number_after(line, "\"step\":"));
      const double validation = number_after(line, "\"validation_loss\":");
      if (is_kind(line, "step")) training.push_back({step, number_after(line, "\"loss\":")});
      if (validation > 0) found.validation.push_back({step, validation});
    }
    if (training.size() > found.training.size()) found.training = std::move(training);
  }
  std::stable_sort(found.validation.begin(), found.validation.end(),
                   [](const loss_point& a, const loss_point& b) { return a.step < b.step; });
  return found;
}

}  // namespace app
