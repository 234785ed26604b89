// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_ROUTED_TIME_HPP
#define CAUSEWAY_PLAN_ROUTED_TIME_HPP

// How long a step takes in which micro-batches go different ways: each names the peer of every stage. Pipelines with a
// dead rank whose micro-batches go to its twins (ReCycle), ranks that do two stages (Bamboo after a failover), swarms. An
// event simulation: a peer that is free takes the gradient that is ready, of the lowest micro-batch; else a forward, if it
// has room for its activations; else a weight gradient that was put off; else a redundant forward. With one peer for each
// stage this is 1F1B. Links are not shared: a message takes its time, and no two wait for each other. What the peers do in
// it is also an order of work, to be run elsewhere: routed_schedule.hpp. A micro-batch may leave middle stages out
// (SkipPipe), and peers and the ways between them may differ: then they have their own seconds.

#include <causeway/config/config.hpp>
#include <causeway/plan/schedule.hpp>
#include <causeway/plan/stage_costs.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// In place of a peer: the micro-batch does not pass the stage. Not the first or the last one.
inline constexpr std::uint32_t left_out = std::numeric_limits<std::uint32_t>::max();

struct routed_step {
  stage_costs costs;                               ///< of P stages
  std::vector<std::vector<std::uint32_t>> routes;  ///< [micro-batch][stage]: peer, or left_out
  std::uint32_t share = 1;                         ///< micro-batches of a peer without losses: with them it keeps the
                                                   ///< activations of P - s; with more, of more in proportion
  bool halves = false;     ///< backwards are split: input gradients first, weight gradients in what would be bubbles
  bool shadows = false;    ///< a peer repeats the forward of the stage after its own (of the first, after the last)
  std::uint32_t room = 0;  ///< micro-batches whose activations every peer has room for; 0: as `share` says
  std::vector<stage_cost> peers{};          ///< [peer]: instead of its stage's cost; empty: all are alike
  std::vector<std::vector<double>> ways{};  ///< [from][to]: seconds of a message, instead of the edges'
};

/// The same way for all micro-batches: peers 0, 1, ... are a pipeline.
CAUSEWAY_DECL std::vector<std::vector<std::uint32_t>> straight_routes(std::size_t stages, std::size_t micro_batches);

namespace detail {

class route_clock {
 public:
  CAUSEWAY_DECL explicit route_clock(const routed_step& step);

  /// Seconds until all is done.
  CAUSEWAY_DECL double run();

  /// What each peer has done, without redundant forwards; an operation's chunk is its stage.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::vector<operation>> take_orders();

 private:
  enum kind : std::uint8_t { gradient, forward, weight, shadow, kinds };  // in the order of preference
  using item = std::pair<std::uint32_t, std::size_t>;                     // micro-batch, stage

  struct peer_state {
    bool busy = false;
    std::array<std::set<item>, kinds> ready;
  };
  // when, in which order, peer, what; a message that arrives, or an operation that ends
  using event = std::tuple<double, std::uint64_t, std::uint32_t, kind, item, bool>;

  [[nodiscard]] std::uint32_t peer_of(const item& i) const { return step_.routes[i.first][i.second]; }
  [[nodiscard]] std::size_t next_stage(std::size_t s) const { return s + 1 < stages_ ? s + 1 : 0; }
  // That the micro-batch passes, after this one or before it; there is one.
  CAUSEWAY_DECL [[nodiscard]] std::size_t next_passed(const item& i) const;
  CAUSEWAY_DECL [[nodiscard]] std::size_t passed_before(const item& i) const;

  CAUSEWAY_DECL [[nodiscard]] double seconds(kind k, const item& i) const;

  CAUSEWAY_DECL [[nodiscard]] work work_of(kind k) const;

  CAUSEWAY_DECL void choose(std::uint32_t peer);

  CAUSEWAY_DECL void start(std::uint32_t peer, kind k, item i);

  CAUSEWAY_DECL void finish(std::uint32_t peer, kind k, item i);

  CAUSEWAY_DECL void send(std::uint32_t from, kind k, const item& what, std::size_t edge);

  const routed_step& step_;
  std::size_t stages_;
  std::vector<peer_state> peers_;
  std::vector<std::vector<operation>> orders_;
  std::map<std::pair<std::uint32_t, std::size_t>, std::size_t> room_;  // of (peer, stage): activations that still fit
  std::priority_queue<event, std::vector<event>, std::greater<>> events_;
  std::uint64_t sequence_ = 0;
  std::size_t gradients_ = 0;  // that are to be done
  double now_ = 0;
};

}  // namespace detail

/// Seconds from the start of a step until all its work is done; without averaging gradients.
/// Costs O(n log n) of n micro-batches times stages.
CAUSEWAY_DECL double seconds_of(const routed_step& step);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/routed_time.ipp>
#endif

#endif  // CAUSEWAY_PLAN_ROUTED_TIME_HPP
