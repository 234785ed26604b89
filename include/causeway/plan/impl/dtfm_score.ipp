// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_DTFM_SCORE_IPP
#define CAUSEWAY_PLAN_IMPL_DTFM_SCORE_IPP

#include <causeway/plan/dtfm_score.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

CAUSEWAY_DECL dtfm_scorer::dtfm_scorer(const link_matrix& links, const pipeline_task& task)
    : task_{task}, devices_{links.size()}, exchange_(devices_ * devices_), hop_(devices_ * devices_) {
  for (std::size_t i = 0; i < devices_; ++i) {
    for (std::size_t j = 0; j < devices_; ++j) {
      if (i == j) continue;
      exchange_[i * devices_ + j] = exchange_seconds(links, i, j, task);
      hop_[i * devices_ + j] = links.mean_seconds(i, j, task.activation_bytes);
    }
  }
  find_kinds();
}

CAUSEWAY_DECL void dtfm_scorer::score(dtfm_partition& p) {
  p.group_seconds.resize(task_.stages);
  p.hop_seconds.assign(task_.stages * task_.stages, 0);
  for (std::size_t g = 0; g < task_.stages; ++g) {
    p.group_seconds[g] = group_seconds(p, g);
    for (std::size_t h = 0; h < g; ++h) pair_groups(p, g, h);
  }
  p.total = total(p, std::numeric_limits<double>::infinity());
}

CAUSEWAY_DECL bool dtfm_scorer::improve_by_swap(dtfm_partition& p, std::span<const std::size_t> a,
                                                std::span<const std::size_t> b) {
  tried_ = p;
  for (std::size_t i = 0; i < a.size(); ++i) std::swap(tried_.devices[a[i]], tried_.devices[b[i]]);
  const std::size_t ga = a[0] / task_.replicas, gb = b[0] / task_.replicas;
  for (const std::size_t g : {ga, gb}) {
    if (g < task_.stages) tried_.group_seconds[g] = group_seconds(tried_, g);
  }
  ++evaluations_;
  if (slowest_group(tried_) >= p.total) return false;
  for (std::size_t h = 0; h < task_.stages; ++h) {
    if (ga < task_.stages && h != ga) pair_groups(tried_, ga, h);
    if (gb < task_.stages && h != gb && h != ga) pair_groups(tried_, gb, h);
  }
  tried_.total = total(tried_, p.total);
  if (tried_.total >= p.total * (1 - 1e-12)) return false;
  std::swap(p, tried_);
  return true;
}

CAUSEWAY_DECL placement dtfm_scorer::arranged(const dtfm_partition& p) {
  const open_path path = shortest_open_path(p.hop_seconds, task_.stages);
  placement where{task_.replicas, {}};
  for (const std::size_t g : path.order) {
    const std::size_t* group = p.devices.data() + g * task_.replicas;
    std::vector<std::size_t> column(task_.replicas);
    for (std::size_t r = 0; r < task_.replicas; ++r) column[r] = group[r];
    if (!where.devices.empty())
      column = partners_of({where.devices.end() - std::ptrdiff_t(task_.replicas), task_.replicas}, column);
    where.devices.insert(where.devices.end(), column.begin(), column.end());
  }
  return where;
}

CAUSEWAY_DECL void dtfm_scorer::find_kinds() {
  kinds_.resize(devices_);
  for (std::size_t i = 0; i < devices_; ++i) {
    kinds_[i] = i;
    for (std::size_t j = 0; j < i && kinds_[i] == i; ++j) {
      if (kinds_[j] == j && same_links(i, j)) kinds_[i] = j;
    }
  }
}

CAUSEWAY_DECL bool dtfm_scorer::same_links(std::size_t a, std::size_t b) const {
  for (std::size_t other = 0; other < devices_; ++other) {
    if (other == a || other == b) continue;
    if (exchange(a, other) != exchange(b, other) || hop(a, other) != hop(b, other)) return false;
  }
  return true;
}

CAUSEWAY_DECL double dtfm_scorer::group_seconds(const dtfm_partition& p, std::size_t g) const {
  const std::size_t* group = p.devices.data() + g * task_.replicas;
  double slowest = 0;
  for (std::size_t i = 0; i < task_.replicas; ++i) {
    const double* row = exchange_.data() + group[i] * devices_;
    double sum = 0;
    for (std::size_t j = 0; j < task_.replicas; ++j) sum += row[group[j]];  // 0 to itself
    slowest = std::max(slowest, sum);
  }
  return slowest;
}

CAUSEWAY_DECL double dtfm_scorer::slowest_group(const dtfm_partition& p) {
  return *std::max_element(p.group_seconds.begin(), p.group_seconds.end());
}

CAUSEWAY_DECL void dtfm_scorer::fill_costs(std::span<const std::size_t> rows, std::span<const std::size_t> columns) {
  costs_.resize(rows.size() * columns.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < columns.size(); ++j) costs_[i * columns.size() + j] = hop(rows[i], columns[j]);
  }
}

CAUSEWAY_DECL void dtfm_scorer::pair_groups(dtfm_partition& p, std::size_t g, std::size_t h) {
  const std::span<const std::size_t> all{p.devices};
  const std::size_t n = task_.replicas;
  fill_costs(all.subspan(g * n, n), all.subspan(h * n, n));
  const double seconds = matcher_.solve(costs_, n);
  p.hop_seconds[g * task_.stages + h] = p.hop_seconds[h * task_.stages + g] = seconds;
}

CAUSEWAY_DECL std::vector<std::size_t> dtfm_scorer::partners_of(std::span<const std::size_t> before,
                                                                std::span<const std::size_t> next) {
  fill_costs(before, next);
  const pairing pairs = bottleneck_pairing(costs_, before.size());
  std::vector<std::size_t> column(before.size());
  for (std::size_t r = 0; r < before.size(); ++r) column[r] = next[pairs.partner_of[r]];
  return column;
}

CAUSEWAY_DECL double dtfm_scorer::total(const dtfm_partition& p, double limit) {
  const double average = slowest_group(p);
  if (average + 2 * spanning_tree(p.hop_seconds) >= limit) return limit;
  return average + 2 * (task_.stages > exact_path_places ? quick_path(p) : paths_.fill(p.hop_seconds, task_.stages));
}

CAUSEWAY_DECL double dtfm_scorer::quick_path(const dtfm_partition& p) const {
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t start = 0; start < task_.stages; ++start) {
    const auto order = nearest_first(p.hop_seconds, task_.stages, start);
    best = std::min(best, cost_of_path(p.hop_seconds, task_.stages, order));
  }
  return best;
}

CAUSEWAY_DECL double dtfm_scorer::spanning_tree(std::span<const double> costs) {
  constexpr double far = std::numeric_limits<double>::infinity();
  const std::size_t n = task_.stages;
  reach_.assign(costs.begin(), costs.begin() + static_cast<std::ptrdiff_t>(n));
  reach_[0] = -1;  // in the tree
  double sum = 0;
  for (std::size_t added = 1; added < n; ++added) {
    std::size_t next = 0;
    double least = far;
    for (std::size_t i = 0; i < n; ++i) {
      if (reach_[i] >= 0 && reach_[i] < least) least = reach_[i], next = i;
    }
    sum += least;
    reach_[next] = -1;
    for (std::size_t i = 0; i < n; ++i) reach_[i] = std::min(reach_[i], costs[next * n + i]);
  }
  return sum;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

#endif  // CAUSEWAY_PLAN_IMPL_DTFM_SCORE_IPP
