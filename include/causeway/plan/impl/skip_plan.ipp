// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_SKIP_PLAN_IPP
#define CAUSEWAY_PLAN_IMPL_SKIP_PLAN_IPP

#include <causeway/plan/skip_plan.hpp>

#include <causeway/core/rng.hpp>
#include <causeway/plan/routed_time.hpp>

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

class skip_search {
 public:
  CAUSEWAY_DECL skip_search(const skip_task& task, const skip_plan_options& options, skip_conflicts minded)
      : task_{task}, options_{options}, minded_{minded} {
    if (options_.micro_batches == 0) options_.micro_batches = task.groups();
  }

  /// The best by simulation; none where no plan was found.
  CAUSEWAY_DECL std::optional<skip_plan> run() {
    search<by_time>(options_.looks / 2, [&](const draft& n) { return take(n); });
    if (free_ < options_.plans)
      search<by_faults>(options_.looks - options_.looks / 2, [&](const draft& n) { return take(n); });
    if (best_) best_->free_of_conflicts = free_, best_->looks = looks_;
    return best_;
  }
  /// The first without conflicts.
  CAUSEWAY_DECL std::optional<skip_plan> first() {
    std::optional<skip_plan> found;
    search<by_time>(options_.looks, [&](const draft& n) {
      if (n.has == faults{}) found = plan_of(n);
      return !found;
    });
    if (found) found->looks = looks_;
    return found;
  }

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
  CAUSEWAY_DECL [[nodiscard]] std::size_t most_in_stage() const {
    if (task_.most_in_stage > 0) return task_.most_in_stage;
    const std::size_t middle = task_.stages.size() - 2;
    return (task_.groups() * (task_.passes - 2) + middle - 1) / middle;
  }

  // By stage or by peer: who is there.
  using visitors = std::vector<std::vector<std::size_t>>;
  CAUSEWAY_DECL [[nodiscard]] visitors at_stages(const states& all) const {
    const visitors peers = at_peers(all);
    visitors at(task_.stages.size());
    for (std::size_t s = 0; s < at.size(); ++s) {
      for (const std::uint32_t p : task_.stages[s]) at[s].insert(at[s].end(), peers[p].begin(), peers[p].end());
      std::sort(at[s].begin(), at[s].end());
    }
    return at;
  }
  CAUSEWAY_DECL [[nodiscard]] visitors at_peers(const states& all) const {
    visitors at(task_.peers.size());
    for (std::size_t g = 0; g < all.size(); ++g) {
      for (const std::uint32_t p : all[g]->route.peers) at[p].push_back(g);
    }
    return at;
  }

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

  CAUSEWAY_DECL [[nodiscard]] faults faults_of(const states& all) const {
    faults has;
    const auto count = [&](const std::vector<std::size_t>& who, std::size_t most) {
      has.crowded += who.size() > most ? who.size() - most : 0;
    };
    if (minds(skip_conflicts::stages)) {
      const visitors at = at_stages(all);
      for (std::size_t s = 1; s + 1 < at.size(); ++s) count(at[s], most_in_stage());
    }
    if (minds(skip_conflicts::peers)) {
      for (const auto& who : at_peers(all)) count(who, task_.room);
    }
    if (minds(skip_conflicts::times)) for_meetings(all, [&](const meeting&) { ++has.meetings; });
    return has;
  }

  CAUSEWAY_DECL [[nodiscard]] draft assessed(states all, std::uint64_t key) {
    draft n{0, faults_of(all), sequence_++, key, std::move(all)};
    for (const auto& g : n.groups) n.slowest = std::max(n.slowest, g->route.seconds);
    return n;
  }

  CAUSEWAY_DECL [[nodiscard]] std::optional<draft> root() {
    states all;
    for (std::size_t g = 0; g < task_.groups(); ++g) {
      group_state state{{std::vector<char>(task_.peers.size(), 0), {}}, {}};
      auto route = quickest_route(task_, g, state.limits);
      if (!route) return std::nullopt;
      state.route = std::move(*route);
      all.push_back(std::make_shared<const group_state>(std::move(state)));
    }
    return assessed(std::move(all), 0);
  }

  // The plans in which one of those in the first conflict may not do its part.
  CAUSEWAY_DECL [[nodiscard]] std::vector<draft> children(const draft& n) {
    std::vector<draft> all;
    if (minds(skip_conflicts::stages)) {
      const visitors at = at_stages(n.groups);
      for (std::size_t s = 1; s + 1 < at.size(); ++s) {
        if (at[s].size() <= most_in_stage()) continue;
        for (const std::size_t g : at[s]) forbid_stage(all, n, g, s);
        return all;
      }
    }
    if (minds(skip_conflicts::peers)) {
      const visitors at = at_peers(n.groups);
      for (std::uint32_t p = 0; p < at.size(); ++p) {
        if (at[p].size() <= task_.room) continue;
        for (const std::size_t g : at[p]) forbid_peer(all, n, g, p);
        return all;
      }
    }
    if (!minds(skip_conflicts::times)) return all;
    std::optional<meeting> first;
    for_meetings(n.groups, [&](const meeting& m) {
      if (!first || m.rank() < first->rank()) first = m;
    });
    if (!first) return all;
    forbid_time(all, n, first->a, first->of_b);
    forbid_time(all, n, first->b, first->of_a);
    return all;
  }

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

  CAUSEWAY_DECL void forbid_stage(std::vector<draft>& all, const draft& n, std::size_t group, std::size_t stage) {
    add_child(all, n, group, mix(1, group, stage), [&](skip_limits& l) {
      for (const std::uint32_t p : task_.stages[stage]) l.banned[p] = 1;
    });
  }
  CAUSEWAY_DECL void forbid_peer(std::vector<draft>& all, const draft& n, std::size_t group, std::uint32_t peer) {
    add_child(all, n, group, mix(2, group, peer), [&](skip_limits& l) { l.banned[peer] = 1; });
  }
  CAUSEWAY_DECL void forbid_time(std::vector<draft>& all, const draft& n, std::size_t group, const skip_visit& when) {
    const std::uint64_t interval = mix(std::bit_cast<std::uint64_t>(when.start), std::bit_cast<std::uint64_t>(when.end));
    add_child(all, n, group, mix(3 + group, when.peer, interval), [&](skip_limits& l) { l.occupied.push_back(when); });
  }

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

  CAUSEWAY_DECL [[nodiscard]] skip_plan plan_of(const draft& n) const {
    skip_plan p;
    for (const auto& g : n.groups) {
      auto& path = p.paths.emplace_back(task_.stages.size(), left_out);
      for (std::size_t s = 0; s < path.size(); ++s) {
        for (const std::uint32_t peer : task_.stages[s]) {
          if (std::find(g->route.peers.begin(), g->route.peers.end(), peer) != g->route.peers.end()) path[s] = peer;
        }
      }
    }
    p.seconds = seconds_of(task_, p.paths, options_.micro_batches);
    p.slowest = n.slowest;
    return p;
  }

  // Whether the search is to go on.
  CAUSEWAY_DECL bool take(const draft& n) {
    if (n.has.crowded > 0) return true;
    skip_plan p = plan_of(n);
    if (!best_ || p.seconds < best_->seconds) best_ = std::move(p);
    free_ += n.has.meetings == 0 ? 1 : 0;
    return free_ < options_.plans;
  }

  const skip_task& task_;
  skip_plan_options options_;
  skip_conflicts minded_;
  std::set<std::uint64_t> seen_;  // sums of what was forbidden: the order does not matter
  std::uint64_t sequence_ = 0;
  std::size_t looks_ = 0, free_ = 0;
  std::optional<skip_plan> best_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL double seconds_of(const skip_task& task, const std::vector<std::vector<std::uint32_t>>& paths,
                                std::size_t micro_batches) {
  routed_step step{equal_costs(static_cast<std::uint32_t>(task.stages.size())), {}};
  for (std::size_t m = 0; m < micro_batches; ++m) step.routes.push_back(paths[m % paths.size()]);
  step.room = static_cast<std::uint32_t>(task.room);
  step.peers = task.peers;
  step.ways = task.ways;
  return seconds_of(step);
}

CAUSEWAY_DECL result<skip_plan> plan_skips(const skip_task& task, const skip_plan_options& options) {
  CAUSEWAY_TRY(check(task));
  auto best = detail::skip_search{task, options, skip_conflicts::times}.run();
  if (best) return std::move(*best);
  return fail(errc::not_found, "paths",
              "no plan without too many groups in a stage or at a peer; look longer, or make room");
}

CAUSEWAY_DECL result<skip_plan> least_slowest(const skip_task& task, skip_conflicts minded, std::size_t looks) {
  CAUSEWAY_TRY(check(task));
  auto found = detail::skip_search{task, {.looks = looks}, minded}.first();
  if (found) return std::move(*found);
  return fail(errc::not_found, "paths", "no plan without these conflicts in so many looks");
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_SKIP_PLAN_IPP
