// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_SWARM_BALANCE_HPP
#define CAUSEWAY_PARALLEL_SWARM_SWARM_BALANCE_HPP

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
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// A peer as the balance sees it.
struct balanced_peer {
  net::peer_id id = 0;
  double seconds = 0;    ///< of one micro-batch; 0: not known
  double queued = 0;     ///< micro-batches that waited there, on average
  bool may_move = true;  ///< the coordinator does not
};

struct swarm_move {
  net::peer_id who = 0;
  std::uint32_t to = 0;
  bool again = false;  ///< it was chosen before, and has not moved yet
};

/// Where a newcomer helps most: a stage that nobody serves, else the one with the longest queues.
CAUSEWAY_DECL [[nodiscard]] std::uint32_t most_loaded(std::span<const std::vector<balanced_peer>> stages);

/// Nobody moves where queues differ by less than `hysteresis` micro-batches per peer, and no stage loses its last peer. The
/// least useful peer of a stage is the slowest; of those with equal speed, the one with the highest id.
CAUSEWAY_DECL [[nodiscard]] std::optional<swarm_move> choose_move(std::span<const std::vector<balanced_peer>> stages,
                                                                  double hysteresis);

/// A peer's own queue: how many micro-batches waited, on average, whenever it began with one. Of this turn, or of the one
/// before as long as nothing was begun. What is said at some moment would not do: peers speak when a turn begins and ends,
/// and then nothing waits.
class queue_meter {
 public:
  CAUSEWAY_DECL void begin_turn();
  /// `waiting`: without the one that is begun.
  CAUSEWAY_DECL void began(std::size_t waiting);
  [[nodiscard]] double mean() const { return begun_ > 0 ? mean_of_turn() : before_; }

 private:
  [[nodiscard]] double mean_of_turn() const { return begun_ > 0 ? sum_ / begun_ : 0; }

  double sum_ = 0, begun_ = 0, before_ = 0;
};

/// Queues as peers told of them since the last comparison.
class queue_watch {
 public:
  CAUSEWAY_DECL void saw(net::peer_id id, double queued);
  void looked() { ++looks_; }
  CAUSEWAY_DECL [[nodiscard]] double mean(net::peer_id id) const;
  /// Whether it is time to compare; the first time one period after the first question.
  CAUSEWAY_DECL bool due(time_point now, duration every);
  /// Other peers serve than before, or others' stages: what was seen so far says nothing of them, and a comparison that is
  /// due soon waits for half a period.
  CAUSEWAY_DECL void changed(time_point now, duration every);
  CAUSEWAY_DECL void clear();

 private:
  std::map<net::peer_id, double> sums_;
  double looks_ = 0;
  time_point at_;
};

/// A peer that serves a stage, as it says of itself.
struct serving_peer {
  net::peer_id id = 0;
  std::uint32_t stage = 0;
  double seconds = 0;  ///< of one micro-batch; 0: not known
  double queued = 0;
};

/// For the coordinator: queues are looked at with every heartbeat, and compared when it is time.
class stage_balance {
 public:
  stage_balance(std::uint32_t stages, duration every, double hysteresis)
      : stages_{stages}, every_{every}, hysteresis_{hysteresis} {}

  /// Whom to ask to serve another stage, if anybody. It moves at the end of its step; who was started again meanwhile has
  /// not heard of it, and is asked again.
  CAUSEWAY_DECL [[nodiscard]] std::optional<swarm_move> look(time_point now, std::span<const serving_peer> others,
                                                             const serving_peer& self);

 private:
  std::uint32_t stages_;
  duration every_;
  double hysteresis_;
  queue_watch queues_;
  std::map<net::peer_id, std::uint32_t> served_;  // stages by peer, when they were looked at last
  swarm_move moving_;                             // the last one that was asked for
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/swarm/impl/swarm_balance.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_SWARM_SWARM_BALANCE_HPP
