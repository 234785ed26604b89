// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_ROUTED_TIME_IPP
#define CAUSEWAY_PLAN_IMPL_ROUTED_TIME_IPP

#include <causeway/plan/routed_time.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

CAUSEWAY_DECL route_clock::route_clock(const routed_step& step) : step_{step}, stages_{step.costs.stages.size()} {
  std::uint32_t peers = 0;
  for (const auto& route : step.routes) {
    CAUSEWAY_EXPECT(route.size() == stages_ && route.front() != left_out && route.back() != left_out);
    for (std::size_t s = 0; s < stages_; ++s) {
      if (route[s] == left_out) continue;
      ++gradients_;
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

CAUSEWAY_DECL std::vector<std::vector<operation>> route_clock::take_orders() { return std::move(orders_); }

CAUSEWAY_DECL double route_clock::run() {
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
  CAUSEWAY_EXPECT(gradients_ == 0);  // the last stage always goes on, so all do
  return now_;
}

CAUSEWAY_DECL std::size_t route_clock::next_passed(const item& i) const {
  std::size_t s = i.second + 1;
  while (step_.routes[i.first][s] == left_out) ++s;
  return s;
}

CAUSEWAY_DECL std::size_t route_clock::passed_before(const item& i) const {
  std::size_t s = i.second - 1;
  while (step_.routes[i.first][s] == left_out) --s;
  return s;
}

CAUSEWAY_DECL double route_clock::seconds(kind k, const item& i) const {
  const stage_cost& c = step_.peers.empty() ? step_.costs.stages[i.second] : step_.peers[peer_of(i)];
  if (k == gradient) return c.input_gradient + (step_.halves ? 0 : c.weight_gradient);
  if (k == weight) return c.weight_gradient;
  return k == forward ? c.forward : step_.costs.stages[next_stage(i.second)].forward;
}

CAUSEWAY_DECL work route_clock::work_of(kind k) const {
  if (k == forward) return work::forward;
  if (k == weight) return work::weight_gradient;
  return step_.halves ? work::input_gradient : work::backward;
}

CAUSEWAY_DECL void route_clock::choose(std::uint32_t peer) {
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

CAUSEWAY_DECL void route_clock::start(std::uint32_t peer, kind k, item i) {
  peers_[peer].ready[k].erase(i);
  peers_[peer].busy = true;
  if (k == forward) --room_[{peer, i.second}];
  if (k != shadow) orders_[peer].push_back({work_of(k), i.first, static_cast<std::uint32_t>(i.second)});
  events_.emplace(now_ + seconds(k, i), sequence_++, peer, k, i, true);
}

CAUSEWAY_DECL void route_clock::finish(std::uint32_t peer, kind k, item i) {
  peers_[peer].busy = false;
  if (k == forward) {
    if (step_.shadows && stages_ > 1 && step_.routes[i.first][next_stage(i.second)] != peer)
      peers_[peer].ready[shadow].insert(i);
    if (i.second + 1 < stages_)
      send(peer, forward, {i.first, next_passed(i)}, i.second);
    else
      peers_[peer].ready[gradient].insert(i);
  } else if (k == gradient) {
    --gradients_;
    if (step_.halves)
      peers_[peer].ready[weight].insert(i);
    else
      ++room_[{peer, i.second}];
    if (i.second > 0) send(peer, gradient, {i.first, passed_before(i)}, i.second - 1);
  } else if (k == weight) {
    ++room_[{peer, i.second}];
  }
}

CAUSEWAY_DECL void route_clock::send(std::uint32_t from, kind k, const item& what, std::size_t edge) {
  const edge_cost& e = step_.costs.edges[edge];
  const std::uint32_t to = peer_of(what);
  const double bytes = k == forward ? e.bytes_forward : e.bytes_backward;
  const double along = step_.ways.empty() ? e.latency + bytes / e.bytes_per_second : step_.ways[from][to];
  const double way = to == from ? 0 : along;
  events_.emplace(now_ + way, sequence_++, to, k, what, false);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL std::vector<std::vector<std::uint32_t>> straight_routes(std::size_t stages, std::size_t micro_batches) {
  std::vector<std::uint32_t> route(stages);
  for (std::size_t s = 0; s < stages; ++s) route[s] = static_cast<std::uint32_t>(s);
  return std::vector<std::vector<std::uint32_t>>(micro_batches, route);
}

CAUSEWAY_DECL double seconds_of(const routed_step& step) {
  CAUSEWAY_EXPECT(!step.costs.stages.empty() && step.costs.edges.size() + 1 == step.costs.stages.size() && step.share > 0);
  return detail::route_clock{step}.run();
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_ROUTED_TIME_IPP
