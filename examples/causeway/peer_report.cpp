// SPDX-License-Identifier: Apache-2.0
#include "peer_report.hpp"

#include <causeway/io/file.hpp>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <utility>

namespace app {
namespace {

unsigned long long ull(std::uint64_t v) { return v; }

// The text after "key": in one of our own lines.
const char* after(const std::string& line, const std::string& key) {
  const auto at = line.find("\"" + key + "\":");
  return at == std::string::npos ? nullptr : line.c_str() + at + key.size() + 3;
}

double number(const std::string& line, const std::string& key) {
  const char* const text = after(line, key);
  return text == nullptr ? 0 : std::strtod(text, nullptr);
}

std::uint64_t whole(const std::string& line, const std::string& key) {
  const char* const text = after(line, key);
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

std::uint64_t hash(const std::string& line, const std::string& key) {
  const char* const text = after(line, key);
  return text == nullptr || *text != '"' ? 0 : std::strtoull(text + 1, nullptr, 16);
}

}  // namespace

std::string to_line(const round_news& n) {
  char text[512];
  std::snprintf(text, sizeof text,
                "{\"round\":%llu,\"step\":%llu,\"state\":\"%016llx\",\"peers\":%u,\"loss\":%.6g,\"validation\":%.9g,"
                "\"tokens_per_second\":%.6g,\"bytes_sent\":%llu,\"blocked_seconds\":%.6g,\"of_run\":%llu",
                ull(n.round), ull(n.step), ull(n.state), n.peers, n.loss, n.validation, n.tokens_per_second,
                ull(n.bytes_sent), n.blocked_seconds, ull(n.of_run));
  std::string line{text};
  for (std::size_t p = 0; p < n.shares.size(); ++p) line += (p == 0 ? ",\"shares\":[" : ",") + std::to_string(n.shares[p]);
  return line + (n.shares.empty() ? "}" : "]}");
}

std::optional<round_news> parse_round(const std::string& line) {
  if (!line.starts_with('{') || !line.ends_with('}')) return std::nullopt;
  round_news n;
  n.round = whole(line, "round");
  n.step = whole(line, "step");
  n.state = hash(line, "state");
  n.peers = static_cast<std::uint32_t>(whole(line, "peers"));
  n.loss = number(line, "loss");
  n.validation = number(line, "validation");
  n.tokens_per_second = number(line, "tokens_per_second");
  n.bytes_sent = whole(line, "bytes_sent");
  n.blocked_seconds = number(line, "blocked_seconds");
  n.of_run = after(line, "of_run") != nullptr ? whole(line, "of_run") : n.step;
  return n;
}

std::uint64_t newest_round(const std::string& peer_folder) {
  std::ifstream file{peer_folder + "/rounds.jsonl", std::ios::ate};
  const std::streamoff length = file ? std::streamoff{file.tellg()} : 0;
  file.seekg(std::max<std::streamoff>(0, length - (std::streamoff{64} << 10U)));
  std::uint64_t newest = 0;
  for (std::string line; std::getline(file, line);) {
    if (const auto n = parse_round(line)) newest = n->round;
  }
  return newest;
}

std::optional<peer_result> read_result(const std::string& peer_folder) {
  std::ifstream file{peer_folder + "/result.json"};
  std::string line;
  if (!std::getline(file, line) || !line.ends_with('}')) return std::nullopt;
  return peer_result{whole(line, "step"),       whole(line, "round"),       hash(line, "state"),
                     whole(line, "bytes_sent"), number(line, "validation"), number(line, "wall_seconds")};
}

peer_report::peer_report(const session_input& in, std::string folder, std::uint32_t index)
    : in_{in}, folder_{std::move(folder)}, index_{index}, line_{in.s.quiet} {}

causeway::result<void> peer_report::open_log() {
  const std::string path = folder_ + "/log.txt";
  log_ = {std::fopen(path.c_str(), "ae"), [](std::FILE* f) {
            if (f != nullptr) std::fclose(f);
          }};
  if (!log_) return causeway::fail(causeway::errc::io_failed, path, "cannot be written; check the folder and the disk");
  std::setvbuf(log_.get(), nullptr, _IOLBF, 0);
  CAUSEWAY_ASSIGN(metrics_, metrics_file::open(folder_, index_, in_.s.watch.tensorboard));
  return {};
}

causeway::log_sink peer_report::log() const {
  return causeway::log_sink{[file = log_, metrics = metrics_, index = index_, quiet = in_.s.quiet](
                                causeway::severity level, std::string_view text) mutable {
    if (level < causeway::severity::info) return;
    const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    const int length = static_cast<int>(text.size());
    if (file) std::fprintf(file.get(), "%.3f %.*s\n", now, length, text.data());
    const auto shown = quiet ? causeway::severity::error : causeway::severity::warning;
    if (level >= causeway::severity::warning) metrics.event(level, text);
    if (level >= shown) std::fprintf(stderr, "peer %u: %.*s\n", index, length, text.data());
  }};
}

void peer_report::opened(const peer_start& who) { metrics_.started(who); }

void peer_report::joined(const round_news& n) {
  if (const auto goes_on = metrics_.resume_at(n.step, n.round, n.parameters); !goes_on) {
    log()(causeway::severity::error, goes_on.error().text());
  }
  rounds_ = std::ofstream{folder_ + "/rounds.jsonl", std::ios::app};
  last_ = n;
  log()(causeway::severity::info, "in, with round " + std::to_string(n.round));
  if (in_.s.quiet) return;
  std::printf("in, with round %llu\n", ull(n.round));
  std::fflush(stdout);
}

void peer_report::stepped(const causeway::step_report& r) {
  last_.loss = r.loss;
  metrics_.stepped(r);
  metrics_.links(*in_.links, false);
}

void peer_report::committed(const round_news& n) {
  rounds_ << to_line(n) << '\n';
  rounds_.flush();
  last_ = n;
  metrics_.committed(n);
  metrics_.links(*in_.links, false);
  metrics_.told(*in_.links, in_.folder, false);
  tell(n);
  show(n);
}

void peer_report::tell(const round_news& n) {
  const auto now = std::chrono::steady_clock::now();
  if (!tell_ || now - told_ < std::chrono::seconds{1}) return;
  told_ = now;
  const told_figures f{n.step, n.round, n.bytes_sent, n.loss, n.tokens_per_second, n.blocked_seconds};
  if (f.possible()) tell_(f);
}

void peer_report::show(const round_news& n) {
  if (n.validation > 0) validation_ = n.validation;
  line_.show({.step = n.of_run,
              .round = n.round,
              .loss = n.loss,
              .validation = validation_,
              .tokens_per_second = n.tokens_per_second * n.peers,
              .bytes_sent = n.bytes_sent,
              .peers = n.peers},
             true);
}

void peer_report::finished(const session_summary& s) {
  if (s.validation > 0) metrics_.validated(s.step, s.round, s.validation);
  char text[512];
  std::snprintf(text, sizeof text,
                "{\"round\":%llu,\"step\":%llu,\"state\":\"%016llx\",\"validation\":%.9g,\"bytes_sent\":%llu,"
                "\"wall_seconds\":%.6g,\"blocked_seconds\":%.6g}\n",
                ull(s.round), ull(s.step), ull(s.state_hash), s.validation, ull(s.bytes_sent), s.wall_seconds,
                s.blocked_seconds);
  causeway::io::posix_storage storage;
  const auto written = storage.write_atomic(folder_ + "/result.json", causeway::io::produce(std::string_view{text}));
  if (!written) log()(causeway::severity::error, written.error().text());
}

causeway::result<int> peer_report::conclude(const session_summary& s) {
  line_.finish();
  metrics_.links(*in_.links, true);
  metrics_.ended(s.step, s.round, s.interrupted);
  if (in_.s.quiet) return s.interrupted ? 130 : 0;
  if (s.interrupted) {
    std::printf("left at round %llu; the others go on. Start the same command again to come back.\n", ull(s.round));
    return 130;
  }
  if (s.validation > 0) {
    std::printf("\nvalidation loss %.4f nats per token (perplexity %.2f)\n", s.validation, std::exp(s.validation));
  } else {
    std::printf("\nthe others have validated without this peer\n");
  }
  std::printf("%s, state %016llx; sent %s in %s\n", counted(s.round, "round").c_str(), ull(s.state_hash),
              human_bytes(static_cast<double>(s.bytes_sent)).c_str(), human_seconds(s.wall_seconds).c_str());
  std::printf("%s\n", waiting_text(s.blocked_seconds, s.wall_seconds).c_str());
  CAUSEWAY_TRY(write_loss_plot(in_.folder + "/loss.svg", {folder_}, in_.s.run.name));
  std::printf("report %s/report.html, loss plot %s/loss.svg, metrics and checkpoints %s\n", in_.folder.c_str(),
              in_.folder.c_str(), folder_.c_str());
  return 0;
}

}  // namespace app
