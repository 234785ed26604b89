// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_DTFM_IPP
#define CAUSEWAY_PLAN_IMPL_DTFM_IPP

#include <causeway/plan/dtfm.hpp>

#include <numeric>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

class dtfm_search {
 public:
  CAUSEWAY_DECL dtfm_search(const link_matrix& links, const pipeline_task& task, const dtfm_options& options)
      : scorer_{links, task}, options_{options}, draw_{options.seed, mix(0x6474666DU)} {}

  CAUSEWAY_DECL dtfm_plan run() {
    found();
    for (std::size_t i = 0; i < options_.children && scorer_.evaluations() < options_.evaluations; ++i) breed();
    const auto best = std::min_element(population_.begin(), population_.end(),
                                       [](const auto& a, const auto& b) { return a.total < b.total; });
    return {scorer_.arranged(*best), {}, scorer_.evaluations()};
  }

 private:
  [[nodiscard]] std::size_t groups() const noexcept { return scorer_.task().stages; }
  [[nodiscard]] std::size_t replicas() const noexcept { return scorer_.task().replicas; }
  [[nodiscard]] std::size_t places() const noexcept { return groups() * replicas(); }

  CAUSEWAY_DECL void found() {
    dtfm_partition p;
    p.devices.resize(scorer_.devices());
    std::iota(p.devices.begin(), p.devices.end(), std::size_t{0});
    for (std::size_t i = 0; i < std::max<std::size_t>(2, options_.population); ++i) {
      shuffle(p.devices, draw_);
      if (i % 2 == 0) deal_neighbours(p.devices);
      scorer_.score(p);
      population_.push_back(p);
    }
    std::stable_sort(population_.begin(), population_.end(),
                     [](const auto& a, const auto& b) { return a.total < b.total; });
    for (std::size_t i = 0; i < population_.size() / 4; ++i) swap_while_better(population_[i]);
  }

  /// Puts the devices in a chain, each followed by the nearest one left, cuts the chain into pieces for a random number of
  /// groups each, and deals each piece out to its groups: one group gathers neighbours, many groups each get some of them.
  CAUSEWAY_DECL void deal_neighbours(std::vector<std::size_t>& devices) {
    for (std::size_t i = 1; i < devices.size(); ++i) {
      const auto left = devices.begin() + static_cast<std::ptrdiff_t>(i);
      const auto nearer = [&, from = devices[i - 1]](auto a, auto b) {
        return scorer_.hop(from, a) < scorer_.hop(from, b);
      };
      std::iter_swap(left, std::min_element(left, devices.end(), nearer));
    }
    const std::vector<std::size_t> chain = devices;
    for (std::size_t first = 0; first < groups();) {
      const std::size_t some = 1 + draw_.below(groups() - first);
      for (std::size_t i = 0; i < some * replicas(); ++i) {
        devices[(first + i % some) * replicas() + i / some] = chain[first * replicas() + i];
      }
      first += some;
    }
  }

  CAUSEWAY_DECL void breed() {
    const std::size_t first = draw_.below(population_.size());
    const std::size_t second = (first + 1 + draw_.below(population_.size() - 1)) % population_.size();
    dtfm_partition child = crossed(population_[first], population_[second]);
    move_in_cycles(child);
    swap_while_better(child);
    for (const auto& p : population_) {
      if (p.total == child.total) return;  // twins would crowd out what differs
    }
    dtfm_partition& worse = population_[population_[first].total > population_[second].total ? first : second];
    if (child.total < worse.total) worse = std::move(child);
  }

  /// The group of each device; `groups()` for spare ones.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::size_t> labels(const dtfm_partition& p) const {
    std::vector<std::size_t> label(p.devices.size(), groups());
    for (std::size_t i = 0; i < places(); ++i) label[p.devices[i]] = i / replicas();
    return label;
  }

  /// Renames the groups of `label` so that they share as many devices as possible, one after another, with those of `like`.
  CAUSEWAY_DECL void rename_like(std::vector<std::size_t>& label, const std::vector<std::size_t>& like) const {
    const std::size_t n = groups();
    std::vector<std::size_t> common((n + 1) * (n + 1)), name(n + 1, n);
    for (std::size_t d = 0; d < label.size(); ++d) ++common[label[d] * (n + 1) + like[d]];
    std::vector<char> taken(n + 1);
    for (std::size_t round = 0; round < n; ++round) {
      std::size_t from = n, to = n;
      for (std::size_t a = 0; a < n; ++a) {
        for (std::size_t b = 0; b < n && name[a] == n; ++b) {
          if (taken[b] != 0) continue;
          if (from == n || common[a * (n + 1) + b] > common[from * (n + 1) + to]) from = a, to = b;
        }
      }
      name[from] = to;
      taken[to] = 1;
    }
    for (std::size_t& l : label) l = name[l];
  }

  CAUSEWAY_DECL dtfm_partition crossed(const dtfm_partition& mother, const dtfm_partition& father) {
    std::vector<std::size_t> label = labels(mother);
    std::vector<std::size_t> other = labels(father);
    rename_like(other, label);
    std::array<std::size_t, 5> cuts{};
    for (std::size_t& c : cuts) c = draw_.below(label.size() + 1);
    std::sort(cuts.begin(), cuts.end());
    for (const std::size_t segment : {0U, 2U, 4U}) {  // [c0, c1), [c2, c3), [c4, end) from the father
      const std::size_t end = segment + 1 < cuts.size() ? cuts[segment + 1] : label.size();
      for (std::size_t d = cuts[segment]; d < end; ++d) label[d] = other[d];
    }
    return mended(label);
  }

  /// Groups that are too large give random devices to those that are too small.
  CAUSEWAY_DECL dtfm_partition mended(const std::vector<std::size_t>& label) {
    std::vector<std::vector<std::size_t>> members(groups() + 1);
    for (std::size_t d = 0; d < label.size(); ++d) members[label[d]].push_back(d);
    std::vector<std::size_t> left_over;
    const auto capacity = [&](std::size_t g) { return g < groups() ? replicas() : label.size() - places(); };
    for (std::size_t g = 0; g <= groups(); ++g) {
      shuffle(members[g], draw_);
      while (members[g].size() > capacity(g)) {
        left_over.push_back(members[g].back());
        members[g].pop_back();
      }
    }
    shuffle(left_over, draw_);
    dtfm_partition p;
    for (std::size_t g = 0; g <= groups(); ++g) {
      while (members[g].size() < capacity(g)) {
        members[g].push_back(left_over.back());
        left_over.pop_back();
      }
      p.devices.insert(p.devices.end(), members[g].begin(), members[g].end());
    }
    return p;
  }

  /// The mean cost between the device at `place` and the others of a group.
  CAUSEWAY_DECL [[nodiscard]] double mean_cost(const dtfm_partition& p, std::size_t place, std::size_t group,
                                               bool gather) const {
    const std::size_t device = p.devices[place];
    double sum = 0;
    for (std::size_t i = group * replicas(); i < (group + 1) * replicas(); ++i) {
      sum += gather ? scorer_.exchange(device, p.devices[i]) : scorer_.hop(device, p.devices[i]);  // 0 to itself
    }
    const std::size_t others = replicas() - (place / replicas() == group ? 1 : 0);
    return others == 0 ? 0 : sum / static_cast<double>(others);
  }

  struct move {
    std::size_t place = 0;
    std::size_t to = 0;
    double gain = -std::numeric_limits<double>::infinity();
  };

  /// The best move of a device that is not locked from `from` to a group that `open` lets in.
  CAUSEWAY_DECL [[nodiscard]] move best_move(const dtfm_partition& p, std::size_t from, const std::vector<char>& open,
                                             const std::vector<char>& locked, bool gather) const {
    move best;
    for (std::size_t i = from * replicas(); i < (from + 1) * replicas(); ++i) {
      if (locked[p.devices[i]] != 0) continue;
      const double here = mean_cost(p, i, from, gather);
      for (std::size_t to = 0; to < groups(); ++to) {
        if (to == from || open[to] == 0) continue;
        const double there = mean_cost(p, i, to, gather);
        const double gain = gather ? here - there : there - here;
        if (gain > best.gain) best = {i, to, gain};
      }
    }
    return best;
  }

  /// One cycle: a device of each group goes to the next one, and the last one's to the first. False: nothing to move.
  CAUSEWAY_DECL bool cycle(dtfm_partition& p, std::vector<char>& locked, bool gather) {
    std::vector<char> open(groups(), 1);
    const std::size_t start = draw_.below(groups());
    std::vector<std::size_t> moving;  // places, whose devices go to the next one's
    std::size_t here = start;
    open[start] = 0;
    for (;;) {
      const move m = best_move(p, here, open, locked, gather);
      if (m.gain == -std::numeric_limits<double>::infinity()) break;
      locked[p.devices[m.place]] = 1;
      moving.push_back(m.place);
      if (m.to == start) break;
      open[m.to] = 0;
      here = m.to;
      open[start] = 1;  // from the second move on the cycle may close
    }
    if (moving.size() < 2) return false;
    const std::size_t last = p.devices[moving.back()];
    for (std::size_t i = moving.size(); i-- > 1;) p.devices[moving[i]] = p.devices[moving[i - 1]];
    p.devices[moving.front()] = last;
    return true;
  }

  CAUSEWAY_DECL void move_in_cycles(dtfm_partition& p) {
    scorer_.score(p);
    if (groups() < 2) return;
    const bool gather = draw_.below(2) == 0;
    std::vector<char> locked(scorer_.devices());
    dtfm_partition now = p;
    while (cycle(now, locked, gather)) {
      scorer_.score(now);
      if (now.total < p.total) p = now;
    }
  }

  /// Swaps two devices of different kinds and groups, or as many as there are of these kinds in these groups, while that
  /// makes the partition better; places come in random order.
  CAUSEWAY_DECL void swap_while_better(dtfm_partition& p) {
    for (bool helped = true; helped && scorer_.evaluations() < options_.evaluations;) {
      helped = false;
      std::vector<std::size_t> order = one_of_each_kind(p);
      shuffle(order, draw_);
      for (std::size_t i = 0; i < order.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) helped = try_swap(p, order[i], order[j]) || helped;
      }
    }
  }

  [[nodiscard]] std::size_t group_at(std::size_t place) const { return std::min(place / replicas(), groups()); }

  /// Places that stand for all: devices of a kind in the same group are alike.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::size_t> one_of_each_kind(const dtfm_partition& p) const {
    std::vector<std::size_t> some;
    std::vector<std::size_t> last(scorer_.devices(), groups() + 1);  // the group in which a kind was seen last
    for (std::size_t i = 0; i < p.devices.size(); ++i) {
      std::size_t& seen = last[scorer_.kind(p.devices[i])];
      if (seen != group_at(i)) some.push_back(i);
      seen = group_at(i);
    }
    return some;
  }

  /// The places in the group of `place` with devices of the same kind.
  CAUSEWAY_DECL void find_alike(const dtfm_partition& p, std::size_t place, std::vector<std::size_t>& alike) const {
    alike.clear();
    const std::size_t group = group_at(place);
    const std::size_t end = group < groups() ? (group + 1) * replicas() : p.devices.size();
    for (std::size_t i = group * replicas(); i < end; ++i) {
      if (scorer_.kind(p.devices[i]) == scorer_.kind(p.devices[place])) alike.push_back(i);
    }
  }

  CAUSEWAY_DECL bool try_swap(dtfm_partition& p, std::size_t a, std::size_t b) {
    if (group_at(a) == group_at(b) || scorer_.kind(p.devices[a]) == scorer_.kind(p.devices[b])) return false;
    find_alike(p, a, alike_a_);
    find_alike(p, b, alike_b_);
    const std::size_t most = std::min(alike_a_.size(), alike_b_.size());
    const std::span<const std::size_t> all_a{alike_a_}, all_b{alike_b_};
    if (most > 1 && scorer_.improve_by_swap(p, all_a.first(most), all_b.first(most))) return true;
    return scorer_.improve_by_swap(p, all_a.first(1), all_b.first(1));
  }

  dtfm_scorer scorer_;
  dtfm_options options_;
  rng draw_;
  std::vector<dtfm_partition> population_;
  std::vector<std::size_t> alike_a_, alike_b_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL result<dtfm_plan> plan_dtfm(const link_matrix& links, const pipeline_task& task,
                                          const dtfm_options& options) {
  CAUSEWAY_TRY(check(links));
  if (task.replicas == 0 || task.stages == 0 || task.replicas > links.size() / task.stages) {
    return fail(errc::invalid_argument, "placement",
                std::to_string(task.replicas) + " replicas of " + std::to_string(task.stages) + " stages do not go on " +
                    std::to_string(links.size()) + " devices; take fewer of either, at least 1");
  }
  detail::dtfm_search search{links, task, options};
  dtfm_plan found = search.run();
  found.cost = cost_of(links, found.where, task);
  return found;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_DTFM_IPP
