// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_METRICS_HPP
#define CAUSEWAY_EXAMPLES_METRICS_HPP

// What a run writes down of itself while it trains: `metrics.jsonl` in the folder of each peer, and `events.jsonl` of who
// started them. One JSON object a line, docs/reference/metrics.md. All views of a run (page, report, terminal, Prometheus)
// are made of these files and nothing else.

#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/train/observer.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "link_meter.hpp"

namespace app {

/// Of the lines. It grows when a field changes its meaning or goes; new fields do not change it.
inline constexpr int metrics_schema = 1;

/// A round that a peer holds.
struct round_news {
  std::uint64_t step = 0;
  std::uint64_t round = 0;
  std::uint64_t state = 0;              ///< hash of the shared state
  std::uint32_t peers = 0;              ///< in the exchange that made it
  double loss = 0;                      ///< of this peer's last step
  double validation = 0;                ///< 0: not looked at
  double tokens_per_second = 0;         ///< of this peer, since the round before
  std::uint64_t bytes_sent = 0;         ///< by this peer
  double blocked_seconds = 0;           ///< by this peer, since it began
  std::vector<std::uint32_t> shares{};  ///< in a swarm: each of those peers' micro-batches of the step
  std::uint64_t bytes_received = 0;
  std::int64_t parameters = 0;  ///< that this peer holds
  std::uint64_t of_run = 0;     ///< steps that the whole run has come to: quick peers take more, and slow ones fewer
};

/// Who a peer is, as its first line says.
struct peer_start {
  std::uint64_t id = 0;     ///< by which others name it in their links
  std::string address{};    ///< where it listens; empty: nowhere
  std::int64_t stage = -1;  ///< of a pipeline or a swarm, where it is known beforehand
};

/// Handles of the same file when copied. Thread-safe.
class metrics_file {
 public:
  metrics_file() = default;
  /// `folder`: of the peer, made if it is not there. `tensorboard`: writes an event file beside it, too.
  static causeway::result<metrics_file> open(const std::string& folder, std::uint32_t peer, bool tensorboard);

  void started(const peer_start& who);
  /// From here on the peer goes on from `step`: what an earlier process wrote of later steps goes.
  causeway::result<void> resume_at(std::uint64_t step, std::uint64_t round, std::int64_t parameters);
  void stepped(const causeway::step_report& r);
  void committed(const round_news& n);
  void validated(std::uint64_t step, std::uint64_t round, double loss);
  /// At most once a second, unless `now` says at once.
  void links(const link_meter& meter, bool now);
  /// What peers of other machines said of themselves, at most every two seconds, unless `now` says at once. `run`: the
  /// folder that says who is on this machine.
  void told(const link_meter& meter, const std::string& run, bool now);
  /// Something that a person should see.
  void event(causeway::severity level, std::string_view text);
  void ended(std::uint64_t step, std::uint64_t round, bool interrupted);

 private:
  struct state;
  std::shared_ptr<state> state_;
};

/// What who started the peers saw: appended to events.jsonl in the folder of a run. `what`: one word, such as died.
void write_run_event(const std::string& run, std::int64_t peer, std::string_view what, std::string_view text);

struct loss_point {
  std::uint64_t step = 0;
  double value = 0;
};

/// The losses that the peers of a run wrote down: those in training of the peer that has most, and all validations.
struct run_losses {
  std::vector<loss_point> training;
  std::vector<loss_point> validation;
};
run_losses read_losses(const std::vector<std::string>& peer_folders);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_METRICS_HPP
