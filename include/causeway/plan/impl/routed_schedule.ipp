// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_ROUTED_SCHEDULE_IPP
#define CAUSEWAY_PLAN_IMPL_ROUTED_SCHEDULE_IPP

#include <causeway/plan/routed_schedule.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

class routed_check {
 public:
  CAUSEWAY_DECL explicit routed_check(const routed_schedule& s)
      : s_{s}, stages_{s.stages()}, seen_(stages_ * s.routes.size()), next_(s.orders.size()) {}

  CAUSEWAY_DECL [[nodiscard]] result<void> run() {
    if (stages_ == 0) return fail(errc::invalid_argument, "routed schedule", "needs a micro-batch and a stage");
    for (const auto& route : s_.routes) {
      const bool known = std::all_of(route.begin(), route.end(), [&](std::uint32_t p) { return p < s_.orders.size(); });
      if (route.size() != stages_ || !known)
        return fail(errc::invalid_argument, "routed schedule", "a micro-batch has no peer for each stage");
    }
    for (std::size_t p = 0; p < s_.orders.size(); ++p) {
      for (std::size_t i = 0; i < s_.orders[p].size(); ++i) CAUSEWAY_TRY(take(p, i));
    }
    for (std::size_t unit = 0; unit < seen_.size(); ++unit) {
      if (seen_[unit] != all_of_it) return wrong(unit, "does not go forward and backward through it, once each");
    }
    return runs();
  }

 private:
  static constexpr unsigned went_forward = 1, went_back = 2, has_weights = 4, all_of_it = 7;

  CAUSEWAY_DECL [[nodiscard]] error wrong(std::size_t unit, const std::string& what) const {
    return fail(errc::invalid_argument,
                "micro-batch " + std::to_string(unit / stages_) + ", stage " + std::to_string(unit % stages_), what);
  }
  [[nodiscard]] std::size_t unit_of(const operation& op) const { return op.micro_batch * stages_ + op.chunk; }

  // Each operation once, on the peer of its route, in the order in which one needs the other.
  CAUSEWAY_DECL [[nodiscard]] result<void> take(std::size_t peer, std::size_t position) {
    const operation& op = s_.orders[peer][position];
    if (op.micro_batch >= s_.routes.size() || op.chunk >= stages_ || s_.routes[op.micro_batch][op.chunk] != peer) {
      return fail(errc::invalid_argument,
                  "peer " + std::to_string(peer) + ", position " + std::to_string(position) + ", " + to_string(op),
                  "is of no route through this peer");
    }
    unsigned& seen = seen_[unit_of(op)];
    unsigned adds = 0, needs = 0;
    switch (op.kind) {
      case work::forward: adds = went_forward; break;
      case work::backward: needs = went_forward, adds = went_back | has_weights; break;
      case work::input_gradient: needs = went_forward, adds = went_back; break;
      case work::weight_gradient: needs = went_forward | went_back, adds = has_weights; break;
      default: return wrong(unit_of(op), "recomputes; routed schedules do not");
    }
    if (seen != needs) return wrong(unit_of(op), to_string(op) + " stands too early, or twice");
    seen |= adds;
    return {};
  }

  // Without clocks: peers go on in turn as far as they can.
  CAUSEWAY_DECL [[nodiscard]] result<void> runs() {
    std::vector<char> forward_done(seen_.size()), back_done(seen_.size());
    std::size_t left = 0;
    for (const auto& order : s_.orders) left += order.size();
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t p = 0; p < s_.orders.size(); ++p) {
        for (; next_[p] < s_.orders[p].size(); ++next_[p], --left, moved = true) {
          const operation& op = s_.orders[p][next_[p]];
          const std::size_t unit = unit_of(op);
          if (op.kind == work::forward && op.chunk > 0 && forward_done[unit - 1] == 0) break;
          if (gives_input_gradient(op.kind) && op.chunk + 1 < stages_ && back_done[unit + 1] == 0) break;
          if (op.kind == work::forward) forward_done[unit] = 1;
          if (gives_input_gradient(op.kind)) back_done[unit] = 1;
        }
      }
    }
    if (left == 0) return {};
    std::size_t stuck = 0;
    while (next_[stuck] == s_.orders[stuck].size()) ++stuck;
    return fail(errc::invalid_argument, "peer " + std::to_string(stuck) + ", position " + std::to_string(next_[stuck]),
                "deadlock: waits for something that waits for what comes after it");
  }

  const routed_schedule& s_;
  std::size_t stages_;
  std::vector<unsigned> seen_;     // [micro-batch · stages + stage]
  std::vector<std::size_t> next_;  // of each peer's order
};

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL routed_schedule schedule_of(const routed_step& step) {
  CAUSEWAY_EXPECT(!step.costs.stages.empty() && step.costs.edges.size() + 1 == step.costs.stages.size() && step.share > 0);
  detail::route_clock clock{step};
  (void)clock.run();
  return {step.routes, clock.take_orders()};
}

CAUSEWAY_DECL std::vector<std::vector<std::uint32_t>> ring_routes(std::uint32_t ranks, std::uint32_t micro_batches) {
  auto routes = straight_routes(ranks, micro_batches);
  for (auto& route : routes) route.push_back(0);
  return routes;
}

CAUSEWAY_DECL std::vector<std::vector<std::uint32_t>> swapped_routes(std::uint32_t ranks, std::uint32_t micro_batches,
                                                                     std::uint32_t first) {
  CAUSEWAY_EXPECT(ranks >= 5);
  auto routes = ring_routes(ranks, micro_batches);
  for (std::uint32_t m = 0; m < micro_batches; ++m) {
    if ((first + m) % 2 == 0) continue;
    std::swap(routes[m][1], routes[m][2]);
    std::swap(routes[m][ranks - 2], routes[m][ranks - 1]);
  }
  return routes;
}

CAUSEWAY_DECL routed_schedule ring_schedule(std::vector<std::vector<std::uint32_t>> routes) {
  CAUSEWAY_EXPECT(!routes.empty());
  const auto places = static_cast<std::uint32_t>(routes.front().size()), share = static_cast<std::uint32_t>(routes.size());
  routed_step step{equal_costs(places), std::move(routes), share};
  step.costs.stages.front() = step.costs.stages.back() = {0.5, 0.5, 0.5, 0.5};
  return schedule_of(step);
}

CAUSEWAY_DECL routed_schedule routed_forwards(std::vector<std::vector<std::uint32_t>> routes, std::size_t peers) {
  routed_schedule s{std::move(routes), std::vector<std::vector<operation>>(peers)};
  const std::size_t places = s.stages(), last = s.routes.size() + places;
  for (std::size_t sum = 0; sum < last; ++sum) {
    for (std::size_t m = sum < places ? 0 : sum - places + 1; m < s.routes.size() && m <= sum; ++m) {
      const std::size_t place = sum - m;
      s.orders[s.routes[m][place]].push_back(
          {work::forward, static_cast<std::uint32_t>(m), static_cast<std::uint32_t>(place)});
    }
  }
  return s;
}

CAUSEWAY_DECL std::int64_t peak_activations(const routed_schedule& s, std::size_t peer) {
  std::int64_t now = 0, peak = 0;
  for (const operation& op : s.orders[peer]) {
    if (op.kind == work::forward) peak = std::max(peak, ++now);
    if (gives_weight_gradient(op.kind)) --now;
  }
  return peak;
}

CAUSEWAY_DECL result<void> check(const routed_schedule& s, std::span<const std::int64_t> bound) {
  CAUSEWAY_TRY(detail::routed_check{s}.run());
  for (std::size_t p = 0; p < bound.size() && p < s.orders.size(); ++p) {
    if (const std::int64_t peak = peak_activations(s, p); peak > bound[p]) {
      return fail(errc::invalid_argument, "peer " + std::to_string(p),
                  "would hold " + std::to_string(peak) + " sets of activations, more than the bound of " +
                      std::to_string(bound[p]));
    }
  }
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_ROUTED_SCHEDULE_IPP
