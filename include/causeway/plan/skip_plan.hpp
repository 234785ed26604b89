// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_SKIP_PLAN_HPP
#define CAUSEWAY_PLAN_SKIP_PLAN_HPP

// Paths through some of the stages for all groups of micro-batches of a step: SkipPipe (Blagoev et al. 2025, arXiv
// 2502.19913; github.com/gensyn-ai/skippipe 1443624, schedulers/CBS.py). Conflict-based search: every group gets its
// quickest path; where paths do not go together, the first conflict is taken, and each of those in it is forbidden its part
// in turn, in a plan of its own, where it gets its quickest path of what it may still do. Conflicts are more groups in a
// stage than the others leave it, more at a peer than it has room for, and two at a peer at a time. Plans with the quickest
// slowest group are looked at first. Of those that go together the event simulation decides: routed_time.hpp.
//
// Here the groups in an overfull stage, or at an overfull peer, are forbidden it one by one, so that no plan is lost; the
// authors' code forbids it to several at once, and looks at no more than three such choices. Paths keep to the order of the
// stages; theirs may swap some. Half of the search goes to plans with few conflicts first, so that there is one in time.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/plan/routed_time.hpp>
#include <causeway/plan/skip_route.hpp>
#include <causeway/plan/stage_costs.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct skip_plan_options {
  std::size_t micro_batches = 0;  ///< of the simulated step, group by group in turn; 0: one for each group
  std::size_t plans = 8;          ///< without conflicts, after which the search ends
  std::size_t looks = 2000;       ///< at plans with conflicts, at most
};

struct skip_plan {
  std::vector<std::vector<std::uint32_t>> paths;  ///< [group][stage]: peer, or left_out
  double seconds = 0;                             ///< of the simulated step
  double slowest = 0;                             ///< group's end as the search sees it, without what waits beyond it
  std::size_t free_of_conflicts = 0;              ///< plans found
  std::size_t looks = 0;                          ///< at plans
};

/// Seconds of a step whose micro-batch m takes path m modulo their number; as in `skip_plan`. Averages are not in it.
CAUSEWAY_DECL [[nodiscard]] double seconds_of(const skip_task& task, const std::vector<std::vector<std::uint32_t>>& paths,
                                              std::size_t micro_batches);

/// The plan with the shortest simulated step among those in which no stage and no peer has too many groups; where the
/// search finds eight that have no two groups at a peer at a time either, it ends. Deterministic.
/// errc::invalid_argument: a task that is none. errc::not_found: no plan in so many looks.
CAUSEWAY_DECL result<skip_plan> plan_skips(const skip_task& task, const skip_plan_options& options = {});

/// The quickest slowest group of all plans: those kinds of conflicts are minded, up to `minded`, in the order above. For
/// comparisons: not found in `looks` looks is errc::not_found.
enum class skip_conflicts : std::uint8_t { none, stages, peers, times };
CAUSEWAY_DECL result<skip_plan> least_slowest(const skip_task& task, skip_conflicts minded, std::size_t looks);

namespace detail {

class skip_search {
 public:
  CAUSEWAY_DECL skip_search(const skip_task& task, const skip_plan_options& options, skip_conflicts minded);

  /// The best by simulation; none where no plan was found.
  CAUSEWAY_DECL std::optional<skip_plan> run();
  /// The first without conflicts.
  CAUSEWAY_DECL std::optional<skip_plan> first();

 private:
  struct group_state {
    skip_limits limits;
    skip_route route;
  };
  using states = std::vector<std::shared_ptr<const group_state>>;

  struct faults {
    std::size_t crowded = 0;  // groups too many, over all stages and peers
    std::size_t meetings = 0;
    friend auto operator<=>(const faults&, const faults&) = default;
  };
  struct draft {
    double slowest = 0;
    faults has;
    std::uint64_t sequence = 0, key = 0;
    states groups;
  };
  struct by_time {
    bool operator()(const draft& a, const draft& b) const {
      return std::tie(a.slowest, a.has, a.sequence) < std::tie(b.slowest, b.has, b.sequence);
    }
  };
  struct by_faults {
    bool operator()(const draft& a, const draft& b) const {
      return std::tie(a.has, a.slowest, a.sequence) < std::tie(b.has, b.slowest, b.sequence);
    }
  };
  struct meeting {
    std::size_t a = 0, b = 0;
    skip_visit of_a, of_b;
    [[nodiscard]] auto rank() const { return std::tuple{std::max(of_a.start, of_b.start), of_a.peer, a, b}; }
  };

  [[nodiscard]] bool minds(skip_conflicts kind) const { return minded_ >= kind; }
  CAUSEWAY_DECL [[nodiscard]] std::size_t most_in_stage() const;

  // By stage or by peer: who is there.
  using visitors = std::vector<std::vector<std::size_t>>;
  CAUSEWAY_DECL [[nodiscard]] visitors at_stages(const states& all) const;
  CAUSEWAY_DECL [[nodiscard]] visitors at_peers(const states& all) const;

  /// `f(meeting)`: two groups at a peer at a time.
  template <class F>
  static void for_meetings(const states& all, F&& f) {
    for (std::size_t a = 0; a < all.size(); ++a) {
      for (std::size_t b = a + 1; b < all.size(); ++b) {
        for (const skip_visit& x : all[a]->route.visits) {
          for (const skip_visit& y : all[b]->route.visits) {
            if (x.peer == y.peer && x.start < y.end && y.start < x.end) f(meeting{a, b, x, y});
          }
        }
      }
    }
  }

  CAUSEWAY_DECL [[nodiscard]] faults faults_of(const states& all) const;

  CAUSEWAY_DECL [[nodiscard]] draft assessed(states all, std::uint64_t key);

  CAUSEWAY_DECL [[nodiscard]] std::optional<draft> root();

  // The plans in which one of those in the first conflict may not do its part.
  CAUSEWAY_DECL [[nodiscard]] std::vector<draft> children(const draft& n);

  template <class Forbid>
  void add_child(std::vector<draft>& all, const draft& n, std::size_t group, std::uint64_t key, Forbid&& forbid) {
    if (!seen_.insert(n.key + key).second) return;
    auto changed = std::make_shared<group_state>(*n.groups[group]);
    forbid(changed->limits);
    auto route = quickest_route(task_, group, changed->limits);
    if (!route) return;
    changed->route = std::move(*route);
    states groups = n.groups;
    groups[group] = std::move(changed);
    all.push_back(assessed(std::move(groups), n.key + key));
  }

  CAUSEWAY_DECL void forbid_stage(std::vector<draft>& all, const draft& n, std::size_t group, std::size_t stage);
  CAUSEWAY_DECL void forbid_peer(std::vector<draft>& all, const draft& n, std::size_t group, std::uint32_t peer);
  CAUSEWAY_DECL void forbid_time(std::vector<draft>& all, const draft& n, std::size_t group, const skip_visit& when);

  template <class Order, class Look>
  void search(std::size_t looks, Look&& look) {
    std::set<draft, Order> open;
    seen_.clear();
    if (auto begin = root()) open.insert(std::move(*begin));
    for (std::size_t i = 0; i < looks && !open.empty(); ++i, ++looks_) {
      const auto n = open.extract(open.begin());
      if (!look(n.value())) return;
      for (draft& c : children(n.value())) open.insert(std::move(c));
    }
  }

  CAUSEWAY_DECL [[nodiscard]] skip_plan plan_of(const draft& n) const;

  // Whether the search is to go on.
  CAUSEWAY_DECL bool take(const draft& n);

  const skip_task& task_;
  skip_plan_options options_;
  skip_conflicts minded_;
  std::set<std::uint64_t> seen_;  // sums of what was forbidden: the order does not matter
  std::uint64_t sequence_ = 0;
  std::size_t looks_ = 0, free_ = 0;
  std::optional<skip_plan> best_;
};

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/skip_plan.ipp>
#endif

#endif  // CAUSEWAY_PLAN_SKIP_PLAN_HPP
