// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_DTFM_SCORE_HPP
#define CAUSEWAY_PLAN_DTFM_SCORE_HPP

// What a partition of the devices into stage groups costs in DTFM's model (arXiv 2206.01288, section 3) when its groups are
// paired and ordered as well as can be: the costliest group's average, plus twice the cheapest open path over the groups,
// where going from one group to another costs the bottleneck of their best pairing. A swap of two devices changes two
// groups only; everything else is kept.

#include <causeway/config/config.hpp>
#include <causeway/plan/matching.hpp>
#include <causeway/plan/open_path.hpp>
#include <causeway/plan/placement.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

/// Devices by place: group g has the places [g * replicas, (g + 1) * replicas); those after the last group are spare.
struct dtfm_partition {
  std::vector<std::size_t> devices;
  std::vector<double> group_seconds;  // data parallel, of each group
  std::vector<double> hop_seconds;    // between groups, stages x stages
  double total = std::numeric_limits<double>::infinity();
};

class dtfm_scorer {
 public:
  CAUSEWAY_DECL dtfm_scorer(const link_matrix& links, const pipeline_task& task);

  [[nodiscard]] const pipeline_task& task() const noexcept { return task_; }
  [[nodiscard]] std::size_t devices() const noexcept { return devices_; }
  [[nodiscard]] double exchange(std::size_t a, std::size_t b) const { return exchange_[a * devices_ + b]; }
  [[nodiscard]] double hop(std::size_t a, std::size_t b) const { return hop_[a * devices_ + b]; }
  [[nodiscard]] std::uint64_t evaluations() const noexcept { return evaluations_; }

  /// Devices of the same kind see the same links: swapping them changes nothing.
  [[nodiscard]] std::size_t kind(std::size_t device) const { return kinds_[device]; }

  CAUSEWAY_DECL void score(dtfm_partition& p);

  /// Swaps the devices at the places `a`, all of one group, with those at `b` if that makes `p` better.
  CAUSEWAY_DECL bool improve_by_swap(dtfm_partition& p, std::span<const std::size_t> a, std::span<const std::size_t> b);

  /// The groups in the order of the best path, each device paired with one of the next group.
  CAUSEWAY_DECL [[nodiscard]] placement arranged(const dtfm_partition& p);

 private:
  CAUSEWAY_DECL void find_kinds();

  CAUSEWAY_DECL [[nodiscard]] bool same_links(std::size_t a, std::size_t b) const;

  CAUSEWAY_DECL [[nodiscard]] double group_seconds(const dtfm_partition& p, std::size_t g) const;

  CAUSEWAY_DECL [[nodiscard]] static double slowest_group(const dtfm_partition& p);

  CAUSEWAY_DECL void fill_costs(std::span<const std::size_t> rows, std::span<const std::size_t> columns);

  CAUSEWAY_DECL void pair_groups(dtfm_partition& p, std::size_t g, std::size_t h);

  CAUSEWAY_DECL [[nodiscard]] std::vector<std::size_t> partners_of(std::span<const std::size_t> before,
                                                                   std::span<const std::size_t> next);

  /// The true cost (beyond 12 groups: of a quickly found path), or at least `limit` where a bound shows it is not less.
  CAUSEWAY_DECL [[nodiscard]] double total(const dtfm_partition& p, double limit);

  /// Always to the nearest group left, from the best start: what many groups are searched with. `arranged` does better.
  CAUSEWAY_DECL [[nodiscard]] double quick_path(const dtfm_partition& p) const;

  /// Of the least weight (Prim 1957): no path over all groups is cheaper.
  CAUSEWAY_DECL [[nodiscard]] double spanning_tree(std::span<const double> costs);

  pipeline_task task_;
  std::size_t devices_;
  std::vector<double> exchange_;
  std::vector<double> hop_;
  std::vector<std::size_t> kinds_;
  std::uint64_t evaluations_ = 0;
  // Space that is used again and again.
  dtfm_partition tried_;
  std::vector<double> costs_;
  std::vector<double> reach_;
  bottleneck_matcher matcher_;
  path_table paths_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/dtfm_score.ipp>
#endif

#endif  // CAUSEWAY_PLAN_DTFM_SCORE_HPP
