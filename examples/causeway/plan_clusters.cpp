// SPDX-License-Identifier: Apache-2.0
#include "plan_clusters.hpp"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace app {
namespace {

namespace plan = causeway::plan;

/// Bytes per second.
double line_of(const plan::link_matrix& links, std::size_t device) {
  std::vector<double> all;
  for (std::size_t other = 0; other < links.size(); ++other) {
    if (other == device) continue;
    all.push_back(std::min(links(device, other).bandwidth, links(other, device).bandwidth) / 8);
  }
  if (all.empty()) return 1;  // alone it sends nothing
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

plan::cluster_task task_of(const plan::transformer_shape& shape, const cluster_request& r) {
  const double tokens = r.micro_batch * static_cast<double>(shape.context);
  const plan::model_cost cost = plan::cost_of(shape, tokens, r.bytes);
  plan::cluster_task task{.message = plan::boundary_bytes(shape, tokens, r.bytes)};
  const auto add = [&](const plan::block_cost& b) {
    task.memory += b.memory + b.activation;
    task.operations += b.seconds;
  };
  for (const plan::block_cost& b : cost.blocks) add(b);
  add(cost.embedding);
  add(cost.head);
  return task;
}

void print_members(const plan::cluster_plan& p, const std::vector<plan::cluster_peer>& peers, const device_list& all,
                   std::size_t cluster) {
  double memory = 0;
  std::pair<double, double> lines{peers[0].bandwidth, 0};
  bool any = false;
  for (std::size_t d = 0; d < peers.size(); ++d) {
    if (p.cluster_of[d] != cluster) continue;
    memory += peers[d].memory;
    lines = {any ? std::min(lines.first, peers[d].bandwidth) : peers[d].bandwidth,
             std::max(lines.second, peers[d].bandwidth)};
    any = true;
  }
  std::printf("%-8zu %9.1f %9.0f-%-9.0f", cluster, memory / 1e9, 8e-6 * lines.first, 8e-6 * lines.second);
  for (std::size_t d = 0; d < peers.size(); ++d) {
    if (p.cluster_of[d] == cluster) std::printf(" %s@%s", all.names[d].c_str(), all.regions[d].c_str());
  }
  std::printf("\n");
}

}  // namespace

causeway::result<void> print_clusters(const plan::transformer_shape& shape, const plan::link_matrix& links,
                                      const device_list& all, const cluster_request& r) {
  std::vector<plan::cluster_peer> peers;
  for (std::size_t d = 0; d < all.devices.size(); ++d) {
    peers.push_back({all.devices[d].memory, all.devices[d].speed, line_of(links, d)});
  }
  const plan::cluster_task task = task_of(shape, r);
  CAUSEWAY_ASSIGN(const plan::cluster_plan p, plan::plan_clusters(peers, task, r.clusters, r.search));
  std::printf("%zu clusters of %zu devices, each of which holds the model (%.1f GB)\n\n%-8s %9s %9s %9s devices\n",
              r.clusters, peers.size(), task.memory / 1e9, "cluster", "GB", "Mbit/s", "");
  for (std::size_t c = 0; c < r.clusters; ++c) print_members(p, peers, all, c);
  std::printf("\npredicted: %.3f s for a micro-batch in the slowest cluster, %.3f s in the mean of all\n", p.slowest,
              p.mean);
  return {};
}

}  // namespace app
