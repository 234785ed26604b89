// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_SKIP_ROUTE_IPP
#define CAUSEWAY_PLAN_IMPL_SKIP_ROUTE_IPP

#include <causeway/plan/skip_route.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

class skip_route_search {
 public:
  CAUSEWAY_DECL skip_route_search(const skip_task& task, const skip_limits& limits)
      : task_{task}, limits_{limits}, stage_of_(task.peers.size()), rest_(task.passes * task.peers.size(), never) {
    for (std::size_t s = 0; s < task.stages.size(); ++s) {
      for (const std::uint32_t p : task.stages[s]) stage_of_[p] = s;
    }
    fill_rest();
  }

  CAUSEWAY_DECL std::optional<skip_route> run(std::size_t group) {
    begun none;
    none.way.seconds = task_.begins(group);
    go_on(none, task_.first_peer(group));
    while (!open_.empty()) {
      begun b = open_.top();
      open_.pop();
      if (b.whole) return std::move(b.way);
      const std::size_t left = task_.passes - b.way.peers.size();
      if (left == 0)
        go_back(std::move(b));
      else
        for_next(stage_of(b.way.peers.back()), left, [&](std::uint32_t p) { go_on(b, p); });
    }
    return std::nullopt;
  }

 private:
  static constexpr double never = std::numeric_limits<double>::infinity();

  struct begun {
    double bound = 0;  // when it ends at the earliest
    std::uint64_t sequence = 0;
    double back = 0;  // seconds of what it has to do on its way back, but for waiting
    skip_route way;
    bool whole = false;
    friend bool operator>(const begun& a, const begun& b) {
      return a.bound != b.bound ? a.bound > b.bound : a.sequence > b.sequence;
    }
  };

  [[nodiscard]] double& rest(std::size_t left, std::uint32_t peer) { return rest_[left * task_.peers.size() + peer]; }
  [[nodiscard]] std::size_t stage_of(std::uint32_t peer) const { return stage_of_[peer]; }

  // Seconds from the end of a peer's forward, with so many stages to come, to the beginning of its backward, without waits.
  CAUSEWAY_DECL void fill_rest() {
    for (const std::uint32_t p : task_.stages.back()) rest(0, p) = 0;
    for (std::size_t left = 1; left < task_.passes; ++left) {
      for (std::size_t s = 0; s + 1 < task_.stages.size(); ++s) {
        for (const std::uint32_t p : task_.stages[s]) {
          for_next(s, left, [&](std::uint32_t q) {
            const double there = task_.ways[p][q] + task_.peers[q].forward;
            const double back = task_.peers[q].of(work::backward) + task_.ways[q][p];
            rest(left, p) = std::min(rest(left, p), there + rest(left - 1, q) + back);
          });
        }
      }
    }
  }

  // Peers of the stages that a way may go on to, with so many to come.
  template <class F>
  void for_next(std::size_t stage, std::size_t left, F&& f) const {
    const std::size_t last = task_.stages.size() - 1;
    for (std::size_t s = left == 1 ? last : stage + 1; s < (left == 1 ? last + 1 : last); ++s) {
      for (const std::uint32_t p : task_.stages[s]) {
        if (limits_.banned[p] == 0) f(p);
      }
    }
  }

  CAUSEWAY_DECL void visit(skip_route& way, std::uint32_t peer, double arrives, double seconds) const {
    const auto disturbs = [&](const skip_visit& o) {
      return o.peer == peer && arrives < o.end && arrives + seconds > o.start;
    };
    for (bool waits = true; waits;) {
      waits = false;
      for (const skip_visit& o : limits_.occupied) {
        if (!disturbs(o)) continue;
        arrives = o.end;
        waits = true;
      }
    }
    way.visits.push_back({peer, arrives, arrives + seconds});
    way.seconds = arrives + seconds;
  }

  CAUSEWAY_DECL void go_on(const begun& b, std::uint32_t peer) {
    begun next = b;
    const double way = next.way.peers.empty() ? 0 : task_.ways[next.way.peers.back()][peer];
    const double back = next.way.peers.empty() ? 0 : task_.ways[peer][next.way.peers.back()];
    next.way.peers.push_back(peer);
    visit(next.way, peer, next.way.seconds + way, task_.peers[peer].forward);
    next.back += back + task_.peers[peer].of(work::backward);
    const double rest_of_it = rest(task_.passes - next.way.peers.size(), peer);
    if (rest_of_it == never) return;
    next.bound = next.way.seconds + rest_of_it + next.back;
    next.sequence = sequence_++;
    open_.push(std::move(next));
  }

  CAUSEWAY_DECL void go_back(begun b) {
    for (std::size_t i = b.way.peers.size(); i-- > 0;) {
      const std::uint32_t peer = b.way.peers[i];
      const double way = i + 1 < b.way.peers.size() ? task_.ways[b.way.peers[i + 1]][peer] : 0;
      visit(b.way, peer, b.way.seconds + way, task_.peers[peer].of(work::backward));
    }
    b.bound = b.way.seconds;
    b.whole = true;
    b.sequence = sequence_++;
    open_.push(std::move(b));
  }

  const skip_task& task_;
  const skip_limits& limits_;
  std::vector<std::size_t> stage_of_;
  std::vector<double> rest_;
  std::priority_queue<begun, std::vector<begun>, std::greater<>> open_;
  std::uint64_t sequence_ = 0;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL double skip_task::begins(std::size_t group) const {
  return static_cast<double>(group % groups_of_peer) * peers[first_peer(group)].forward;
}

CAUSEWAY_DECL result<void> check(const skip_task& task) {
  const auto wrong = [](const char* what, const std::string& why) { return fail(errc::invalid_argument, what, why); };
  if (task.stages.size() < 3) return wrong("stages", "paths that leave stages out need three or more");
  if (task.passes < 3 || task.passes > task.stages.size())
    return wrong("passes", "a path has 3 to " + std::to_string(task.stages.size()) + " stages");
  if (task.groups_of_peer == 0 || task.groups_of_peer > task.room)
    return wrong("groups_of_peer", "a peer begins at least one group, and at most as many as it has room for");
  std::vector<char> seen(task.peers.size(), 0);
  for (const auto& stage : task.stages) {
    if (stage.empty()) return wrong("stages", "each needs a peer");
    for (const std::uint32_t p : stage) {
      if (p >= seen.size() || std::exchange(seen[p], 1) != 0)
        return wrong("stages", "a peer serves one stage, and has times");
    }
  }
  for (const stage_cost& c : task.peers) {
    if (!(c.forward >= 0 && c.of(work::backward) >= 0 && c.forward + c.of(work::backward) < 1e300))
      return wrong("peers", "seconds are finite and not negative");
  }
  if (task.ways.size() != seen.size()) return wrong("ways", "every peer has a row");
  for (const auto& row : task.ways) {
    const auto good = [](double seconds) { return seconds >= 0 && seconds < 1e300; };
    if (row.size() != seen.size() || !std::all_of(row.begin(), row.end(), good))
      return wrong("ways", "every row has seconds for each peer, finite and not negative");
  }
  if (task.stages.back().size() * task.room < task.groups()) return wrong("room", "the last stage cannot hold all groups");
  return {};
}

CAUSEWAY_DECL std::optional<skip_route> quickest_route(const skip_task& task, std::size_t group,
                                                       const skip_limits& limits) {
  return detail::skip_route_search{task, limits}.run(group);
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_SKIP_ROUTE_IPP
