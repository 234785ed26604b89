// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_BALANCE_HPP
#define CAUSEWAY_PARALLEL_SWARM_BALANCE_HPP

// Which peer of a swarm should serve another stage (SWARM, ICML 2023, section 3.3): from time to time queues are compared,
// and the least useful peer of the least loaded stage goes to the most loaded one.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/net/fabric.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::parallel {

/// A peer as the balance sees it.
struct balanced_peer {
  net::peer_id id = 0;
  double seconds = 0;    ///< of one micro-batch; 0: not known
  double queued = 0;     ///< micro-batches that waited there, on average
  bool may_move = true;  ///< the driver does not
};

struct swarm_move {
  net::peer_id who = 0;
  std::uint32_t to = 0;
};

/// Waiting micro-batches per peer of the stage; 0 where nobody serves it.
[[nodiscard]] inline double load_of(const std::vector<balanced_peer>& stage) {
  double sum = 0;
  for (const balanced_peer& p : stage) sum += p.queued;
  return stage.empty() ? 0 : sum / static_cast<double>(stage.size());
}

/// Where a newcomer helps most: a stage that nobody serves, else the one with the longest queues.
[[nodiscard]] inline std::uint32_t most_loaded(std::span<const std::vector<balanced_peer>> stages) {
  std::uint32_t most = 0;
  for (std::uint32_t s = 0; s < stages.size(); ++s) {
    if (stages[s].empty()) return s;
    if (load_of(stages[s]) > load_of(stages[most])) most = s;
  }
  return most;
}

/// Nobody moves where queues differ by less than `hysteresis` micro-batches per peer, and no stage loses its last peer. The
/// least useful peer of a stage is the slowest; of those with equal speed, the one with the highest id.
[[nodiscard]] inline std::optional<swarm_move> choose_move(std::span<const std::vector<balanced_peer>> stages,
                                                           double hysteresis) {
  const std::uint32_t most = most_loaded(stages);
  std::optional<std::uint32_t> least;
  for (std::uint32_t s = 0; s < stages.size(); ++s) {
    if (s == most || stages[s].size() < 2) continue;
    if (!least || load_of(stages[s]) < load_of(stages[*least])) least = s;
  }
  if (!least || (!stages[most].empty() && load_of(stages[most]) < load_of(stages[*least]) + hysteresis))
    return std::nullopt;
  const balanced_peer* who = nullptr;
  for (const balanced_peer& p : stages[*least]) {
    if (p.may_move && (who == nullptr || p.seconds >= who->seconds)) who = &p;
  }
  if (who == nullptr) return std::nullopt;
  return swarm_move{who->id, most};
}

/// A peer's own queue: how many micro-batches waited, on average, whenever it began with one. Of this turn, or of the one
/// before as long as nothing was begun. What is said at some moment would not do: peers speak when a turn begins and ends,
/// and then nothing waits.
class queue_meter {
 public:
  void begin_turn() {
    before_ = mean_of_turn();
    sum_ = begun_ = 0;
  }
  /// `waiting`: without the one that is begun.
  void began(std::size_t waiting) {
    sum_ += static_cast<double>(waiting);
    ++begun_;
  }
  [[nodiscard]] double mean() const { return begun_ > 0 ? mean_of_turn() : before_; }

 private:
  [[nodiscard]] double mean_of_turn() const { return begun_ > 0 ? sum_ / begun_ : 0; }

  double sum_ = 0, begun_ = 0, before_ = 0;
};

/// Queues as peers told of them since the last comparison.
class queue_watch {
 public:
  void saw(net::peer_id id, double queued) { sums_[id] += queued; }
  void looked() { ++looks_; }
  [[nodiscard]] double mean(net::peer_id id) const {
    const auto at = sums_.find(id);
    return at == sums_.end() || looks_ == 0 ? 0 : at->second / looks_;
  }
  /// Whether it is time to compare; the first time one period after the first question.
  bool due(time_point now, duration every) {
    if (at_ == time_point{}) at_ = now + every;
    if (every == duration{0} || now < at_) return false;
    at_ = now + every;
    return true;
  }
  /// Other peers serve than before, or others' stages: what was seen so far says nothing of them, and a comparison that is
  /// due soon waits for half a period.
  void changed(time_point now, duration every) {
    clear();
    if (at_ != time_point{}) at_ = std::max(at_, now + every / 2);
  }
  void clear() {
    sums_.clear();
    looks_ = 0;
  }

 private:
  std::map<net::peer_id, double> sums_;
  double looks_ = 0;
  time_point at_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_BALANCE_HPP
