// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_RING_ORDER_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_RING_ORDER_IPP

#include <causeway/collective/ring_order.hpp>

#include <bit>
#include <limits>
#include <numeric>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL ring_cost cost_of_ring(const link_costs& links, std::span<const net::peer_index> order) {
  ring_cost c;
  for (std::size_t i = 0; i < order.size() && order.size() > 1; ++i) {
    const double link = links(order[i], order[(i + 1) % order.size()]);
    c.slowest = std::max(c.slowest, link);
    c.sum += link;
  }
  return c;
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

CAUSEWAY_DECL bool is_better(const ring_cost& a, const ring_cost& b, ring_goal goal) {
  if (goal == ring_goal::sum) return a.sum < b.sum;
  return a.slowest < b.slowest || (a.slowest == b.slowest && a.sum < b.sum);
}

CAUSEWAY_DECL subset_search::subset_search(const link_costs& links, bool by_sum, double limit)
    : links_{links},
      by_sum_{by_sum},
      limit_{limit},
      others_{links.peers - 1},
      best_((std::size_t{1} << others_) * others_, std::numeric_limits<double>::infinity()),
      before_(best_.size(), 0) {
  for (std::uint32_t j = 0; j < others_; ++j) best_[at(1U << j, j)] = link(0, j + 1);
  for (std::uint32_t set = 1; set < (1U << others_); ++set) {
    for (std::uint32_t j = 0; j < others_; ++j) {
      if ((set >> j & 1U) != 0 && std::popcount(set) > 1) extend(set, j);
    }
  }
}

CAUSEWAY_DECL std::pair<double, ring_list> subset_search::ring() const {
  std::uint32_t set = (1U << others_) - 1, last = 0;
  const auto closed = [&](std::uint32_t j) { return joined(best_[at(set, j)], link(j + 1, 0)); };
  for (std::uint32_t j = 1; j < others_; ++j) {
    if (closed(j) < closed(last)) last = j;
  }
  const double cost = closed(last);
  ring_list order;
  while (set != 0) {
    order.push_back(last + 1);
    const std::uint32_t previous = before_[at(set, last)];
    set &= ~(1U << last);
    last = previous;
  }
  order.push_back(0);
  std::reverse(order.begin(), order.end());
  return {cost, order};
}

CAUSEWAY_DECL double subset_search::link(net::peer_index from, net::peer_index to) const {
  const double cost = links_(from, to);
  return cost <= limit_ ? cost : std::numeric_limits<double>::infinity();
}

CAUSEWAY_DECL void subset_search::extend(std::uint32_t set, std::uint32_t j) {
  const std::uint32_t rest = set & ~(1U << j);
  before_[at(set, j)] = static_cast<std::uint8_t>(std::countr_zero(rest));  // some path, also where no links are
  for (std::uint32_t k = 0; k < others_; ++k) {
    if ((rest >> k & 1U) == 0) continue;
    const double cost = joined(best_[at(rest, k)], link(k + 1, j + 1));
    if (cost >= best_[at(set, j)]) continue;
    best_[at(set, j)] = cost;
    before_[at(set, j)] = static_cast<std::uint8_t>(k);
  }
}

CAUSEWAY_DECL ring_list exact_ring(const link_costs& links, ring_goal goal) {
  double limit = std::numeric_limits<double>::infinity();
  if (goal == ring_goal::slowest) limit = subset_search{links, false, limit}.ring().first;
  return subset_search{links, true, limit}.ring().second;
}

CAUSEWAY_DECL ring_list nearest_neighbours(const link_costs& links, net::peer_index start) {
  ring_list order(links.peers);
  std::iota(order.begin(), order.end(), 0U);
  std::swap(order[0], order[start]);
  for (std::size_t i = 1; i < order.size(); ++i) {
    const auto nearest = std::min_element(order.begin() + static_cast<std::ptrdiff_t>(i), order.end(), [&](auto a, auto b) {
      return std::pair{links(order[i - 1], a), a} < std::pair{links(order[i - 1], b), b};
    });
    std::swap(order[i], *nearest);
  }
  return order;
}

CAUSEWAY_DECL local_search::local_search(const link_costs& links, ring_goal goal, ring_list order)
    : links_{links}, goal_{goal}, order_{std::move(order)}, cost_{cost_of_ring(links, order_)} {
  while (reverse_runs() || move_runs()) {
  }
}

CAUSEWAY_DECL bool local_search::reverse_runs() {
  bool helped = false;
  for (std::size_t first = 0; first + 1 < order_.size(); ++first) {
    for (std::size_t last = first + 2; last <= order_.size(); ++last) {
      tried_ = order_;
      std::reverse(tried_.begin() + static_cast<std::ptrdiff_t>(first), tried_.begin() + static_cast<std::ptrdiff_t>(last));
      helped = keep_if_better() || helped;
    }
  }
  return helped;
}

CAUSEWAY_DECL bool local_search::move_runs() {
  constexpr std::size_t longest = 3;
  bool helped = false;
  for (std::size_t length = 1; length <= longest; ++length) {
    for (std::size_t first = 0; first + length <= order_.size(); ++first) {
      for (std::size_t to = 0; to + length <= order_.size(); ++to) helped = move_run(first, length, to) || helped;
    }
  }
  return helped;
}

CAUSEWAY_DECL bool local_search::move_run(std::size_t first, std::size_t length, std::size_t to) {
  tried_ = order_;
  const auto at = tried_.begin() + static_cast<std::ptrdiff_t>(first);
  const auto size = static_cast<std::ptrdiff_t>(length);
  const auto target = tried_.begin() + static_cast<std::ptrdiff_t>(to);
  if (to < first) std::rotate(target, at, at + size);
  if (to > first) std::rotate(at, at + size, target + size);
  return keep_if_better();
}

CAUSEWAY_DECL bool local_search::keep_if_better() {
  const ring_cost c = cost_of_ring(links_, tried_);
  if (!is_better(c, cost_, goal_)) return false;
  cost_ = c;
  std::swap(order_, tried_);
  return true;
}

CAUSEWAY_DECL std::vector<double> with_penalties(std::span<const double> costs) {
  std::vector<double> finite(costs.begin(), costs.end());
  double penalty = 1;
  for (const double c : costs) penalty += c < std::numeric_limits<double>::infinity() ? c : 0;
  for (double& c : finite) c = std::min(c, penalty);
  return finite;
}

CAUSEWAY_DECL ring_list searched_ring(const link_costs& with_gaps, ring_goal goal, std::uint64_t seed) {
  constexpr int starts = 8;
  const std::vector<double> finite = with_penalties(with_gaps.costs);
  const link_costs links{finite, with_gaps.peers};
  rng draw{seed};
  local_search best{links, goal, nearest_neighbours(links, 0)};
  ring_list order = best.order();
  ring_cost cost = best.cost();
  for (int i = 1; i < starts; ++i) {
    const auto start = static_cast<net::peer_index>(draw.below(links.peers));
    const local_search next{links, goal, nearest_neighbours(links, start)};
    if (!is_better(next.cost(), cost, goal)) continue;
    cost = next.cost();
    order = next.order();
  }
  std::rotate(order.begin(), std::find(order.begin(), order.end(), 0U), order.end());
  return order;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL std::vector<net::peer_index> ring_order(const link_costs& links, ring_goal goal, std::uint64_t seed) {
  CAUSEWAY_EXPECT(links.costs.size() == std::size_t{links.peers} * links.peers);
  if (links.peers < 2) return std::vector<net::peer_index>(links.peers, 0);
  if (links.peers <= detail::exact_ring_peers) return detail::exact_ring(links, goal);
  return detail::searched_ring(links, goal, seed);
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_RING_ORDER_IPP
