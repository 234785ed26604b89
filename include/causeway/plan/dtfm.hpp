// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_DTFM_HPP
#define CAUSEWAY_PLAN_DTFM_HPP

// Places pipelines on devices that are linked unequally: DTFM's scheduler (Yuan et al., NeurIPS 2022, arXiv 2206.01288). A
// population of balanced partitions evolves: two parents are crossed at five points, the child is mended to be balanced,
// improved by cyclic moves between groups (in the manner of Kernighan and Lin, gains from the links' costs), and takes the
// place of its worse parent where it is better.
//
// The paper leaves the gains open. Here they are differences of mean link costs, and each child draws what it strives for:
// groups of near devices (cheap averages) or of devices far from each other (so that near ones are in neighbouring stages:
// cheap hops). A sequence of cycles may go uphill; its best point by the true cost is kept. Ours besides: half of the first
// population deals chains of near devices out to groups; its best ones and each child end with swaps that lower the true
// cost, of single devices and of all that are alike. All devices are taken to compute alike.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/plan/dtfm_score.hpp>
#include <causeway/plan/link_matrix.hpp>
#include <causeway/plan/placement.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct dtfm_options {
  std::uint64_t seed = 1;
  std::size_t population = 32;         ///< at least 2
  std::size_t children = 400;          ///< how many are bred
  std::uint64_t evaluations = 200000;  ///< of partitions, after which no more children are bred
};

struct dtfm_plan {
  placement where;
  placement_cost cost;
  std::uint64_t evaluations = 0;
};

namespace detail {

class dtfm_search {
 public:
  CAUSEWAY_DECL dtfm_search(const link_matrix& links, const pipeline_task& task, const dtfm_options& options);

  CAUSEWAY_DECL dtfm_plan run();

 private:
  [[nodiscard]] std::size_t groups() const noexcept { return scorer_.task().stages; }
  [[nodiscard]] std::size_t replicas() const noexcept { return scorer_.task().replicas; }
  [[nodiscard]] std::size_t places() const noexcept { return groups() * replicas(); }

  CAUSEWAY_DECL void found();

  /// Puts the devices in a chain, each followed by the nearest one left, cuts the chain into pieces for a random number of
  /// groups each, and deals each piece out to its groups: one group gathers neighbours, many groups each get some of them.
  CAUSEWAY_DECL void deal_neighbours(std::vector<std::size_t>& devices);

  CAUSEWAY_DECL void breed();

  CAUSEWAY_DECL void shuffle(std::vector<std::size_t>& list);

  /// The group of each device; `groups()` for spare ones.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::size_t> labels(const dtfm_partition& p) const;

  /// Renames the groups of `label` so that they share as many devices as possible, one after another, with those of `like`.
  CAUSEWAY_DECL void rename_like(std::vector<std::size_t>& label, const std::vector<std::size_t>& like) const;

  CAUSEWAY_DECL dtfm_partition crossed(const dtfm_partition& mother, const dtfm_partition& father);

  /// Groups that are too large give random devices to those that are too small.
  CAUSEWAY_DECL dtfm_partition mended(const std::vector<std::size_t>& label);

  /// The mean cost between the device at `place` and the others of a group.
  CAUSEWAY_DECL [[nodiscard]] double mean_cost(const dtfm_partition& p, std::size_t place, std::size_t group,
                                               bool gather) const;

  struct move {
    std::size_t place = 0;
    std::size_t to = 0;
    double gain = -std::numeric_limits<double>::infinity();
  };

  /// The best move of a device that is not locked from `from` to a group that `open` lets in.
  CAUSEWAY_DECL [[nodiscard]] move best_move(const dtfm_partition& p, std::size_t from, const std::vector<char>& open,
                                             const std::vector<char>& locked, bool gather) const;

  /// One cycle: a device of each group goes to the next one, and the last one's to the first. False: nothing to move.
  CAUSEWAY_DECL bool cycle(dtfm_partition& p, std::vector<char>& locked, bool gather);

  CAUSEWAY_DECL void move_in_cycles(dtfm_partition& p);

  /// Swaps two devices of different kinds and groups, or as many as there are of these kinds in these groups, while that
  /// makes the partition better; places come in random order.
  CAUSEWAY_DECL void swap_while_better(dtfm_partition& p);

  [[nodiscard]] std::size_t group_at(std::size_t place) const { return std::min(place / replicas(), groups()); }

  /// Places that stand for all: devices of a kind in the same group are alike.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::size_t> one_of_each_kind(const dtfm_partition& p) const;

  /// The places in the group of `place` with devices of the same kind.
  CAUSEWAY_DECL void find_alike(const dtfm_partition& p, std::size_t place, std::vector<std::size_t>& alike) const;

  CAUSEWAY_DECL bool try_swap(dtfm_partition& p, std::size_t a, std::size_t b);

  dtfm_scorer scorer_;
  dtfm_options options_;
  rng draw_;
  std::vector<dtfm_partition> population_;
  std::vector<std::size_t> alike_a_, alike_b_;
};

}  // namespace detail

/// A placement of `task` on some of the devices of `links`, as cheap as the search finds. The same input and seed give the
/// same plan on every machine. errc::invalid_argument: links that are none, or too few devices.
CAUSEWAY_DECL result<dtfm_plan> plan_dtfm(const link_matrix& links, const pipeline_task& task,
                                          const dtfm_options& options = {});

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/dtfm.ipp>
#endif

#endif  // CAUSEWAY_PLAN_DTFM_HPP
