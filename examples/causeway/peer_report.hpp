// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_PEER_REPORT_HPP
#define CAUSEWAY_EXAMPLES_PEER_REPORT_HPP

// What one peer of an elastic run leaves in its folder while it trains: metrics.jsonl, rounds.jsonl with a line per
// committed round, result.json at the end, and log.txt. A launcher reads them; without one, the peer shows its progress
// itself.

#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "elastic_place.hpp"
#include "metrics.hpp"
#include "report.hpp"
#include "session_input.hpp"
#include "told_figures.hpp"

namespace app {

/// A line of rounds.jsonl.
std::string to_line(const round_news& n);
/// What a line says; none if it is not whole.
std::optional<round_news> parse_round(const std::string& line);
/// The last round that the peer of a folder wrote down; 0: none.
std::uint64_t newest_round(const std::string& peer_folder);

/// What result.json says of a peer that trained to the end.
struct peer_result {
  std::uint64_t step = 0;
  std::uint64_t round = 0;
  std::uint64_t state = 0;
  std::uint64_t bytes_sent = 0;
  double validation = 0;
  double wall_seconds = 0;
};
std::optional<peer_result> read_result(const std::string& peer_folder);

class peer_report final : public session_events {
 public:
  peer_report(const session_input& in, std::string folder, std::uint32_t index);

  causeway::result<void> open_log();
  /// Everything from `info` on goes to log.txt, warnings to stderr too. Thread-safe.
  [[nodiscard]] causeway::log_sink log() const;

  /// By which the other peers hear how this one stands; nothing is said without it.
  void tells(std::function<void(const told_figures&)> tell) { tell_ = std::move(tell); }

  /// The peer has its network.
  void opened(const peer_start& who);

  void joined(const round_news& n) override;
  void stepped(const causeway::step_report& r) override;
  void committed(const round_news& n) override;
  void finished(const session_summary& s) override;

  /// What a person wants to know at the end; the exit status.
  causeway::result<int> conclude(const session_summary& s);

 private:
  void show(const round_news& n);
  void tell(const round_news& n);

  const session_input& in_;
  std::string folder_;
  std::uint32_t index_;
  progress_line line_;
  std::shared_ptr<std::FILE> log_;
  metrics_file metrics_;
  std::ofstream rounds_;
  round_news last_;
  double validation_ = 0;
  std::function<void(const told_figures&)> tell_;
  std::chrono::steady_clock::time_point told_{};
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_PEER_REPORT_HPP
