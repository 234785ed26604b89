// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_LAYOUT_HPP
#define CAUSEWAY_STAGE_LAYOUT_HPP

// Who holds and computes which blocks, where peers come and go: pipelines that need not be cut alike, and may be of
// different length. All peers of an attempt work out the same layout from the same facts.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/nn/model_part.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::stage {

/// One peer's place.
struct seat {
  std::uint64_t peer = 0;
  nn::block_range computes;
  /// Rising and apart, `computes` within one of them: what else it keeps up to date, for when another peer is lost. None:
  /// what it computes.
  std::vector<nn::block_range> keeps{};

  [[nodiscard]] std::vector<nn::block_range> held() const {
    return keeps.empty() ? std::vector<nn::block_range>{computes} : keeps;
  }
  [[nodiscard]] bool holds(std::int64_t block) const {
    const auto has = [&](const nn::block_range& r) { return r.first <= block && block < r.last; };
    return keeps.empty() ? has(computes) : std::any_of(keeps.begin(), keeps.end(), has);
  }
  friend bool operator==(const seat&, const seat&) = default;
};

/// One whole pipeline.
struct replica {
  std::vector<seat> seats;          ///< in the order of the model
  std::uint32_t micro_batches = 0;  ///< its share of the global batch

  friend bool operator==(const replica&, const replica&) = default;
};

/// Peers without a seat are spare.
struct layout {
  std::vector<replica> replicas;

  struct place {
    std::size_t replica = 0, rank = 0;
  };
  /// Where a peer is; nullptr: spare.
  [[nodiscard]] const seat* find(std::uint64_t peer, place* at = nullptr) const {
    for (std::size_t r = 0; r < replicas.size(); ++r) {
      for (std::size_t s = 0; s < replicas[r].seats.size(); ++s) {
        if (replicas[r].seats[s].peer != peer) continue;
        if (at != nullptr) *at = {r, s};
        return &replicas[r].seats[s];
      }
    }
    return nullptr;
  }
  /// The peers that hold a block, in the order of replicas and ranks.
  [[nodiscard]] std::vector<std::uint64_t> holders(std::int64_t block) const {
    std::vector<std::uint64_t> all;
    for (const replica& r : replicas) {
      for (const seat& s : r.seats) {
        if (s.holds(block)) all.push_back(s.peer);
      }
    }
    return all;
  }
  /// The number of the first micro-batch of a replica.
  [[nodiscard]] std::uint32_t first_micro_batch(std::size_t of) const {
    std::uint32_t sum = 0;
    for (std::size_t r = 0; r < of; ++r) sum += replicas[r].micro_batches;
    return sum;
  }

  friend bool operator==(const layout&, const layout&) = default;

  /// Every replica computes every block once, every micro-batch has one replica, every peer at most one seat.
  [[nodiscard]] result<void> check(std::int64_t layers, std::uint32_t micro_batches) const {
    const auto wrong = [](const std::string& what) { return fail(errc::invalid_argument, "layout", what); };
    std::vector<std::uint64_t> peers;
    for (const replica& r : replicas) {
      std::int64_t next = 0;
      for (const seat& s : r.seats) {
        if (s.computes.first != next || s.computes.size() < 1) return wrong("a replica does not compute each block once");
        CAUSEWAY_TRY(nn::model_part{s.held()}.check(layers));
        if (!nn::model_part{s.held()}.holds(s.computes)) return wrong("a peer computes what it does not hold");
        next = s.computes.last;
        peers.push_back(s.peer);
      }
      if (next != layers) return wrong("a replica does not compute each block once");
    }
    std::sort(peers.begin(), peers.end());
    if (std::adjacent_find(peers.begin(), peers.end()) != peers.end()) return wrong("a peer has two seats");
    if (replicas.empty() || first_micro_batch(replicas.size()) != micro_batches)
      return wrong("the replicas' micro-batches are not those of the global batch");
    return {};
  }
};

/// `micro_batches` over `replicas`, as evenly as can be; the first get one more.
[[nodiscard]] inline std::vector<std::uint32_t> even_shares(std::uint32_t micro_batches, std::size_t replicas) {
  const auto n = static_cast<std::uint32_t>(replicas);
  std::vector<std::uint32_t> shares(replicas, micro_batches / n);
  for (std::uint32_t i = 0; i < micro_batches % n; ++i) ++shares[i];
  return shares;
}

/// `layers` blocks in `stages` ranges, as evenly as can be. Precondition: 1 <= stages <= layers.
[[nodiscard]] inline std::vector<nn::block_range> even_cut(std::int64_t layers, std::int64_t stages) {
  CAUSEWAY_EXPECT(stages >= 1 && stages <= layers);
  std::vector<nn::block_range> ranges;
  for (std::int64_t s = 0; s < stages; ++s) ranges.push_back({s * layers / stages, (s + 1) * layers / stages});
  return ranges;
}

}  // namespace causeway::inline CAUSEWAY_ABI::stage

#endif  // CAUSEWAY_STAGE_LAYOUT_HPP
