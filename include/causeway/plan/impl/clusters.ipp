// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_CLUSTERS_IPP
#define CAUSEWAY_PLAN_IMPL_CLUSTERS_IPP

#include <causeway/plan/clusters.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

CAUSEWAY_DECL cluster_search::cluster_search(std::span<const cluster_peer> peers, const cluster_task& task,
                                             std::size_t clusters, const cluster_options& options)
    : peers_{peers.begin(), peers.end()},
      task_{task},
      clusters_{clusters},
      options_{options},
      draw_{options.seed, mix(0x636C7573U)} {}

CAUSEWAY_DECL bool cluster_search::rated::operator<(const rated& o) const {
  if (missing != o.missing) return missing < o.missing;
  if (slowest != o.slowest) return slowest < o.slowest;
  return mean < o.mean;
}

CAUSEWAY_DECL auto cluster_search::rate(std::vector<std::size_t> cluster_of) const -> rated {
  rated r{std::move(cluster_of), 0, 0, 0};
  std::vector<double> memory(clusters_), pace(clusters_);
  for (std::size_t i = 0; i < peers_.size(); ++i) memory[r.cluster_of[i]] += peers_[i].memory;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const cluster_peer& p = peers_[i];
    const double share = p.memory / memory[r.cluster_of[i]];
    const double message = share < 1 ? task_.message / p.bandwidth : 0;  // alone it sends nothing
    pace[r.cluster_of[i]] = std::max({pace[r.cluster_of[i]], share * task_.operations / p.speed, message});
  }
  for (std::size_t c = 0; c < clusters_; ++c) {
    r.missing += std::max(0.0, task_.memory - memory[c]);
    r.slowest = std::max(r.slowest, pace[c]);
    r.mean += pace[c] / static_cast<double>(clusters_);
  }
  return r;
}

CAUSEWAY_DECL auto cluster_search::run() -> rated {
  std::vector<rated> all;
  for (std::size_t i = 0; i < std::max<std::size_t>(2, options_.population); ++i) {
    all.push_back(improved(rate(founder(i == 0))));
  }
  for (std::size_t i = 0; i < options_.children; ++i) {
    rated& mother = all[draw_.below(all.size())];
    rated& father = all[draw_.below(all.size())];
    rated child = improved(rate(changed(mother.cluster_of, father.cluster_of)));
    rated& worse = mother < father ? father : mother;
    if (child < worse) worse = std::move(child);
  }
  return *std::min_element(all.begin(), all.end());
}

CAUSEWAY_DECL std::vector<std::size_t> cluster_search::founder(bool sorted) {
  std::vector<std::size_t> cluster_of(peers_.size());
  if (!sorted) {
    for (std::size_t& c : cluster_of) c = draw_.below(clusters_);
    return cluster_of;
  }
  std::vector<std::size_t> order(peers_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return peers_[a].bandwidth < peers_[b].bandwidth; });
  for (std::size_t i = 0; i < order.size(); ++i) cluster_of[order[i]] = i * clusters_ / order.size();
  return cluster_of;
}

CAUSEWAY_DECL std::vector<std::size_t> cluster_search::changed(std::vector<std::size_t> child,
                                                               const std::vector<std::size_t>& father) {
  for (std::size_t i = 0; i < child.size(); ++i) {
    if (draw_.below(2) == 0) child[i] = father[i];
  }
  const std::size_t a = draw_.below(child.size()), b = draw_.below(child.size());
  if (draw_.below(2) == 0) {
    std::swap(child[a], child[b]);
  } else {
    child[a] = draw_.below(clusters_);
  }
  return child;
}

CAUSEWAY_DECL auto cluster_search::improved(rated r) const -> rated {
  while (improve(r)) {
  }
  return r;
}

CAUSEWAY_DECL bool cluster_search::improve(rated& best) const {
  const auto keep = [&](std::vector<std::size_t> next) {
    rated r = rate(std::move(next));
    if (!(r < best)) return false;
    best = std::move(r);
    return true;
  };
  for (std::size_t a = 0; a < peers_.size(); ++a) {
    for (std::size_t c = 0; c < clusters_; ++c) {
      auto next = best.cluster_of;
      next[a] = c;
      if (keep(std::move(next))) return true;
    }
    for (std::size_t b = 0; b < a; ++b) {
      auto next = best.cluster_of;
      std::swap(next[a], next[b]);
      if (keep(std::move(next))) return true;
    }
  }
  return false;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL result<cluster_plan> plan_clusters(std::span<const cluster_peer> peers, const cluster_task& task,
                                                 std::size_t clusters, const cluster_options& options) {
  if (clusters == 0 || clusters > peers.size()) {
    return fail(errc::invalid_argument, "clusters",
                std::to_string(clusters) + " clusters of " + std::to_string(peers.size()) + " peers; take 1 to so many");
  }
  for (const cluster_peer& p : peers) {
    if (!(p.memory > 0) || !(p.speed > 0) || !(p.bandwidth > 0))
      return fail(errc::invalid_argument, "clusters", "each peer needs a memory, a speed and a bandwidth above 0");
  }
  const auto best = detail::cluster_search{peers, task, clusters, options}.run();
  if (best.missing > 0) {
    return fail(errc::out_of_memory, "clusters",
                "no " + std::to_string(clusters) + " clusters were found that all hold the model; take fewer clusters");
  }
  return cluster_plan{best.cluster_of, best.slowest, best.mean};
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_CLUSTERS_IPP
