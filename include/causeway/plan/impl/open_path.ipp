// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_OPEN_PATH_IPP
#define CAUSEWAY_PLAN_IMPL_OPEN_PATH_IPP

#include <causeway/plan/open_path.hpp>

#include <algorithm>
#include <limits>
#include <numeric>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

/// Tries every run reversed (2-opt) and every run of up to three places moved (Or-opt) until nothing helps.
CAUSEWAY_DECL void improve_path(std::span<const double> costs, std::size_t places, open_path& path) {
  std::vector<std::size_t> tried;
  const auto keep = [&] {
    const double cost = cost_of_path(costs, places, tried);
    if (cost >= path.cost * (1 - 1e-12)) return false;
    path = {cost, tried};
    return true;
  };
  for (bool helped = true; helped;) {
    helped = false;
    for (std::size_t first = 0; first + 1 < places; ++first) {
      for (std::size_t last = first + 2; last <= places; ++last) {
        tried = path.order;
        std::reverse(tried.begin() + static_cast<std::ptrdiff_t>(first), tried.begin() + static_cast<std::ptrdiff_t>(last));
        helped = keep() || helped;
        for (std::size_t end = last + 1; end <= places; ++end) {
          if (last - first > 3 && end - last > 3) break;
          tried = path.order;
          const auto at = tried.begin();
          std::rotate(at + static_cast<std::ptrdiff_t>(first), at + static_cast<std::ptrdiff_t>(last),
                      at + static_cast<std::ptrdiff_t>(end));
          helped = keep() || helped;
        }
      }
    }
  }
}

CAUSEWAY_DECL double path_table::fill(std::span<const double> costs, std::size_t places) {
  costs_ = costs;
  n_ = places;
  sets_ = std::uint32_t{1} << n_;
  best_.assign(sets_ * n_, std::numeric_limits<double>::infinity());
  for (std::size_t j = 0; j < n_; ++j) best_[(std::size_t{1} << j) * n_ + j] = 0;
  for (std::uint32_t set = 1; set < sets_; ++set) {
    for (std::size_t j = 0; j < n_; ++j) {
      if ((set >> j & 1U) != 0) spread(set, j);
    }
  }
  const auto last = best_.end() - static_cast<std::ptrdiff_t>(n_);
  return *std::min_element(last, best_.end());
}

CAUSEWAY_DECL std::vector<std::size_t> path_table::order() const {
  std::uint32_t set = sets_ - 1;
  std::size_t last = cheapest_end(set);
  std::vector<std::size_t> path{last};
  while (path.size() < n_) {
    const double here = at(set, last);
    set &= ~(std::uint32_t{1} << last);
    for (std::size_t j = 0; j < n_; ++j) {
      if ((set >> j & 1U) == 0 || at(set, j) + costs_[j * n_ + last] != here) continue;
      last = j;
      break;
    }
    path.push_back(last);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

CAUSEWAY_DECL void path_table::spread(std::uint32_t set, std::size_t from) {
  const double base = at(set, from);
  for (std::size_t to = 0; to < n_; ++to) {
    if ((set >> to & 1U) != 0) continue;
    double& known = best_[(set | std::uint32_t{1} << to) * n_ + to];
    known = std::min(known, base + costs_[from * n_ + to]);
  }
}

CAUSEWAY_DECL std::size_t path_table::cheapest_end(std::uint32_t set) const {
  std::size_t end = 0;
  for (std::size_t j = 1; j < n_; ++j) {
    if (at(set, j) < at(set, end)) end = j;
  }
  return end;
}

CAUSEWAY_DECL std::vector<std::size_t> nearest_first(std::span<const double> costs, std::size_t places, std::size_t start) {
  std::vector<std::size_t> order(places);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::swap(order[0], order[start]);
  for (std::size_t i = 1; i < places; ++i) {
    const auto from = order.begin() + static_cast<std::ptrdiff_t>(i);
    const double* row = costs.data() + order[i - 1] * places;
    std::iter_swap(from, std::min_element(from, order.end(), [&](auto a, auto b) { return row[a] < row[b]; }));
  }
  return order;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL double cost_of_path(std::span<const double> costs, std::size_t places, std::span<const std::size_t> order) {
  double sum = 0;
  for (std::size_t i = 0; i + 1 < order.size(); ++i) sum += costs[order[i] * places + order[i + 1]];
  return sum;
}

CAUSEWAY_DECL open_path shortest_open_path(std::span<const double> costs, std::size_t places) {
  CAUSEWAY_EXPECT(costs.size() == places * places);
  if (places == 0) return {};
  if (places <= exact_path_places) {
    detail::path_table table;
    const double cost = table.fill(costs, places);
    return {cost, table.order()};
  }
  open_path best{std::numeric_limits<double>::infinity(), {}};
  for (std::size_t start = 0; start < places; ++start) {
    open_path next{0, detail::nearest_first(costs, places, start)};
    next.cost = cost_of_path(costs, places, next.order);
    detail::improve_path(costs, places, next);
    if (next.cost < best.cost) best = std::move(next);
  }
  return best;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_OPEN_PATH_IPP
