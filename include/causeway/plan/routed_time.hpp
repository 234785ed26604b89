// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_ROUTED_TIME_HPP
#define CAUSEWAY_PLAN_ROUTED_TIME_HPP

// How long a step takes in which micro-batches go different ways: each names the peer of every stage. Pipelines with a
// dead rank whose micro-batches go to its twins (ReCycle), ranks that do two stages (Bamboo after a failover), swarms. An
// event simulation: a peer that is free takes the gradient that is ready, of the lowest micro-batch; else a forward, if it
// has room for its activations; else a weight gradient that was put off; else a redundant forward. With one peer for each
// stage this is 1F1B. Links are not shared: a message takes its time, and no two wait for each other. What the peers do in
// it is also an order of work, to be run elsewhere: routed_schedule.hpp.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/plan/schedule.hpp>
#include <causeway/plan/stage_costs.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::plan {

struct routed_step {
  stage_costs costs;                               ///< of P stages
  std::vector<std::vector<std::uint32_t>> routes;  ///< [micro-batch][stage]: peer
  std::uint32_t share = 1;                         ///< micro-batches of a peer without losses: with them it keeps the
                                                   ///< activations of P - s; with more, of more in proportion
  bool halves = false;     ///< backwards are split: input gradients first, weight gradients in what would be bubbles
  bool shadows = false;    ///< a peer repeats the forward of the stage after its own (of the first, after the last)
  std::uint32_t room = 0;  ///< micro-batches whose activations every peer has room for; 0: as `share` says
};

/// The same way for all micro-batches: peers 0, 1, ... are a pipeline.
inline std::vector<std::vector<std::uint32_t>> straight_routes(std::size_t stages, std::size_t micro_batches) {
  std::vector<std::uint32_t> route(stages);
  for (std::size_t s = 0; s < stages; ++s) route[s] = static_cast<std::uint32_t>(s);
  return std::vector<std::vector<std::uint32_t>>(micro_batches, route);
}

namespace detail {

class route_clock {
 public:
  explicit route_clock(const routed_step& step) : step_{step}, stages_{step.costs.stages.size()} {
    std::uint32_t peers = 0;
    for (const auto& route : step.routes) {
      CAUSEWAY_EXPECT(route.size() == stages_);
      for (std::size_t s = 0; s < stages_; ++s) {
        peers = std::max(peers, route[s] + 1);
        ++room_[{route[s], s}];
      }
    }
    for (auto& [at, room] : room_) {  // of all micro-batches that come here, those that fit at once
      const std::size_t usual = ((stages_ - at.second) * room + step.share - 1) / step.share;
      room = std::max<std::size_t>(1, step.room > 0 ? step.room : usual);
    }
    peers_.resize(peers);
    orders_.resize(peers);
    for (std::uint32_t m = 0; m < step.routes.size(); ++m) peers_[step.routes[m][0]].ready[forward].insert({m, 0});
  }

  /// Seconds until all is done.
  double run() {
    for (std::uint32_t p = 0; p < peers_.size(); ++p) choose(p);
    std::set<std::uint32_t> awake;
    while (!events_.empty()) {
      now_ = std::get<0>(events_.top());
      for (awake.clear(); !events_.empty() && std::get<0>(events_.top()) == now_; events_.pop()) {
        const auto [when, sequence, peer, k, what, ends] = events_.top();
        if (ends)
          finish(peer, k, what);
        else
          peers_[peer].ready[k].insert(what);
        awake.insert(peer);
      }
      for (const std::uint32_t p : awake) choose(p);
    }
    CAUSEWAY_EXPECT(gradients_ == step_.routes.size() * stages_);  // the last stage always goes on, so all do
    return now_;
  }

  /// What each peer has done, without redundant forwards; an operation's chunk is its stage.
  [[nodiscard]] std::vector<std::vector<operation>> take_orders() { return std::move(orders_); }

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

  [[nodiscard]] double seconds(kind k, const item& i) const {
    const stage_cost& c = step_.costs.stages[i.second];
    if (k == gradient) return c.input_gradient + (step_.halves ? 0 : c.weight_gradient);
    if (k == weight) return c.weight_gradient;
    return k == forward ? c.forward : step_.costs.stages[next_stage(i.second)].forward;
  }

  [[nodiscard]] work work_of(kind k) const {
    if (k == forward) return work::forward;
    if (k == weight) return work::weight_gradient;
    return step_.halves ? work::input_gradient : work::backward;
  }

  void choose(std::uint32_t peer) {
    peer_state& p = peers_[peer];
    if (p.busy) return;
    for (int k = 0; k < kinds; ++k) {
      for (const item& i : p.ready[static_cast<std::size_t>(k)]) {
        if (k == forward && room_[{peer, i.second}] == 0) continue;
        start(peer, static_cast<kind>(k), i);
        return;
      }
    }
  }

  void start(std::uint32_t peer, kind k, item i) {
    peers_[peer].ready[k].erase(i);
    peers_[peer].busy = true;
    if (k == forward) --room_[{peer, i.second}];
    if (k != shadow) orders_[peer].push_back({work_of(k), i.first, static_cast<std::uint32_t>(i.second)});
    events_.emplace(now_ + seconds(k, i), sequence_++, peer, k, i, true);
  }

  void finish(std::uint32_t peer, kind k, item i) {
    peers_[peer].busy = false;
    if (k == forward) {
      if (step_.shadows && stages_ > 1 && step_.routes[i.first][next_stage(i.second)] != peer)
        peers_[peer].ready[shadow].insert(i);
      if (i.second + 1 < stages_)
        send(peer, forward, {i.first, i.second + 1}, i.second);
      else
        peers_[peer].ready[gradient].insert(i);
    } else if (k == gradient) {
      ++gradients_;
      if (step_.halves)
        peers_[peer].ready[weight].insert(i);
      else
        ++room_[{peer, i.second}];
      if (i.second > 0) send(peer, gradient, {i.first, i.second - 1}, i.second - 1);
    } else if (k == weight) {
      ++room_[{peer, i.second}];
    }
  }

  void send(std::uint32_t from, kind k, const item& what, std::size_t edge) {
    const edge_cost& e = step_.costs.edges[edge];
    const std::uint32_t to = peer_of(what);
    const double bytes = k == forward ? e.bytes_forward : e.bytes_backward;
    const double way = to == from ? 0 : e.latency + bytes / e.bytes_per_second;
    events_.emplace(now_ + way, sequence_++, to, k, what, false);
  }

  const routed_step& step_;
  std::size_t stages_;
  std::vector<peer_state> peers_;
  std::vector<std::vector<operation>> orders_;
  std::map<std::pair<std::uint32_t, std::size_t>, std::size_t> room_;  // of (peer, stage): activations that still fit
  std::priority_queue<event, std::vector<event>, std::greater<>> events_;
  std::uint64_t sequence_ = 0;
  std::size_t gradients_ = 0;  // done
  double now_ = 0;
};

}  // namespace detail

/// Seconds from the start of a step until all its work is done; without averaging gradients.
/// Costs O(n log n) of n micro-batches times stages.
inline double seconds_of(const routed_step& step) {
  CAUSEWAY_EXPECT(!step.costs.stages.empty() && step.costs.edges.size() + 1 == step.costs.stages.size() && step.share > 0);
  return detail::route_clock{step}.run();
}

}  // namespace causeway::inline CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_ROUTED_TIME_HPP
