// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_STAGE_CLUSTER_SNAPSHOTS_HPP
#define CAUSEWAY_TESTS_STAGE_CLUSTER_SNAPSHOTS_HPP

#include <causeway/stage/recovery.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace causeway {

/// Peers with these ids and blocks; none of them was assigned anything.
inline stage::cluster_snapshot snapshot_of(std::int64_t layers, std::uint32_t micro_batches,
                                           std::vector<stage::present_peer> peers) {
  std::sort(peers.begin(), peers.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return {layers, micro_batches, std::move(peers)};
}

/// The snapshot of the peers of a layout after some are gone: what is left holds what it held.
inline stage::cluster_snapshot after_losing(const stage::layout& l, std::int64_t layers, std::uint32_t micro_batches,
                                            const std::vector<std::uint64_t>& gone) {
  std::vector<stage::present_peer> peers;
  for (std::uint32_t r = 0; r < l.replicas.size(); ++r) {
    for (const stage::assignment& s : l.replicas[r].assignments) {
      if (s.peer == stage::nobody || std::find(gone.begin(), gone.end(), s.peer) != gone.end()) continue;
      peers.push_back({s.peer, s.held(), r, s.computes});
    }
  }
  return snapshot_of(layers, micro_batches, std::move(peers));
}

/// `n` newcomers, ids from 1.
inline stage::cluster_snapshot newcomers(std::int64_t layers, std::uint32_t micro_batches, std::uint64_t n) {
  std::vector<stage::present_peer> peers;
  for (std::uint64_t id = 1; id <= n; ++id) peers.push_back({id, {{0, layers}}});
  return snapshot_of(layers, micro_batches, std::move(peers));
}

}  // namespace causeway

#endif  // CAUSEWAY_TESTS_STAGE_CLUSTER_SNAPSHOTS_HPP
