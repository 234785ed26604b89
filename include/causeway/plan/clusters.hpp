// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_CLUSTERS_HPP
#define CAUSEWAY_PLAN_CLUSTERS_HPP

// Which peers should hold a copy of the model together: Ravnest (Menon et al. 2024, arXiv 2401.01728) sorts them by a
// genetic algorithm into clusters of similar bandwidth, each with enough memory, in which the model is split by memory. The
// paper does not give its fitness; ours follows from what the clusters do. A cluster is a pipeline without bubbles, so it
// goes at the pace of its slowest member: of the part of the model that its share of the memory brings, or of its messages.
// All clusters then wait for the slowest one to average with. The fitness is the pace of the slowest cluster, and then the
// clusters' mean: peers with slow lines end up together, where they hold up nobody else.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::plan {

struct cluster_peer {
  double memory = 0;     ///< bytes, above 0
  double speed = 1;      ///< operations per second, above 0
  double bandwidth = 1;  ///< bytes per second, above 0
};

/// What each cluster does with a micro-batch.
struct cluster_task {
  double memory = 0;      ///< bytes that the model takes, with all that training it takes
  double operations = 0;  ///< of the whole model
  double message = 0;     ///< bytes that a peer sends to the next
};

struct cluster_options {
  std::uint64_t seed = 1;
  std::size_t population = 24;
  std::size_t children = 150;
};

struct cluster_plan {
  std::vector<std::size_t> cluster_of;  ///< of each peer
  double slowest = 0;                   ///< seconds for a micro-batch in the slowest cluster
  double mean = 0;                      ///< in all clusters
};

namespace detail {

class cluster_search {
 public:
  cluster_search(std::span<const cluster_peer> peers, const cluster_task& task, std::size_t clusters,
                 const cluster_options& options)
      : peers_{peers.begin(), peers.end()},
        task_{task},
        clusters_{clusters},
        options_{options},
        draw_{options.seed, mix(0x636C7573U)} {}

  /// Lower is better: bytes missing in all clusters, the slowest, the mean.
  struct rated {
    std::vector<std::size_t> cluster_of;
    double missing = 0, slowest = 0, mean = 0;

    [[nodiscard]] bool operator<(const rated& o) const {
      if (missing != o.missing) return missing < o.missing;
      if (slowest != o.slowest) return slowest < o.slowest;
      return mean < o.mean;
    }
  };

  [[nodiscard]] rated rate(std::vector<std::size_t> cluster_of) const {
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

  [[nodiscard]] rated run() {
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

 private:
  /// The first: by bandwidth, as many in each cluster. The others at random.
  std::vector<std::size_t> founder(bool sorted) {
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

  /// Each peer from one of its parents, and then one moved or two swapped; every child ends in a local optimum.
  std::vector<std::size_t> changed(std::vector<std::size_t> child, const std::vector<std::size_t>& father) {
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

  [[nodiscard]] rated improved(rated r) const {
    while (improve(r)) {
    }
    return r;
  }

  /// One peer moved, or two swapped.
  bool improve(rated& best) const {
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

  std::vector<cluster_peer> peers_;
  cluster_task task_;
  std::size_t clusters_;
  cluster_options options_;
  rng draw_;
};

}  // namespace detail

/// Sorts peers into `clusters` clusters that each hold the model. The same input and seed give the same clusters.
/// errc::out_of_memory: no such clusters were found; take fewer.
inline result<cluster_plan> plan_clusters(std::span<const cluster_peer> peers, const cluster_task& task,
                                          std::size_t clusters, const cluster_options& options = {}) {
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

}  // namespace causeway::inline CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_CLUSTERS_HPP
