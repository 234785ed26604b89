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

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

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
  CAUSEWAY_DECL cluster_search(std::span<const cluster_peer> peers, const cluster_task& task, std::size_t clusters,
                               const cluster_options& options);

  /// Lower is better: bytes missing in all clusters, the slowest, the mean.
  struct rated {
    std::vector<std::size_t> cluster_of;
    double missing = 0, slowest = 0, mean = 0;

    CAUSEWAY_DECL [[nodiscard]] bool operator<(const rated& o) const;
  };

  CAUSEWAY_DECL [[nodiscard]] rated rate(std::vector<std::size_t> cluster_of) const;

  CAUSEWAY_DECL [[nodiscard]] rated run();

 private:
  /// The first: by bandwidth, as many in each cluster. The others at random.
  CAUSEWAY_DECL std::vector<std::size_t> founder(bool sorted);

  /// Each peer from one of its parents, and then one moved or two swapped; every child ends in a local optimum.
  CAUSEWAY_DECL std::vector<std::size_t> changed(std::vector<std::size_t> child, const std::vector<std::size_t>& father);

  CAUSEWAY_DECL [[nodiscard]] rated improved(rated r) const;

  /// One peer moved, or two swapped.
  CAUSEWAY_DECL bool improve(rated& best) const;

  std::vector<cluster_peer> peers_;
  cluster_task task_;
  std::size_t clusters_;
  cluster_options options_;
  rng draw_;
};

}  // namespace detail

/// Sorts peers into `clusters` clusters that each hold the model. The same input and seed give the same clusters.
/// errc::out_of_memory: no such clusters were found; take fewer.
CAUSEWAY_DECL result<cluster_plan> plan_clusters(std::span<const cluster_peer> peers, const cluster_task& task,
                                                 std::size_t clusters, const cluster_options& options = {});

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/clusters.ipp>
#endif

#endif  // CAUSEWAY_PLAN_CLUSTERS_HPP
