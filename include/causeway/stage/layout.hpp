// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_LAYOUT_HPP
#define CAUSEWAY_STAGE_LAYOUT_HPP

// Who holds and computes which blocks, where peers come and go: pipelines that need not be cut alike, and may be of
// different length. Where pipelines are cut alike, one may lack a stage: its micro-batches take a detour there. All peers
// of an attempt work out the same layout from the same facts.

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

/// In the place of a peer: the seat is empty.
inline constexpr std::uint64_t nobody = 0;

/// One peer's place.
struct seat {
  std::uint64_t peer = nobody;
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
        if (s.peer != nobody && s.holds(block)) all.push_back(s.peer);
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

  /// Those who have a seat, in the order of replicas and ranks.
  [[nodiscard]] std::vector<std::uint64_t> seated() const {
    std::vector<std::uint64_t> all;
    for (const replica& r : replicas) {
      for (const seat& s : r.seats) {
        if (s.peer != nobody) all.push_back(s.peer);
      }
    }
    return all;
  }
  [[nodiscard]] bool has_empty_seats() const {
    std::size_t seats = 0;
    for (const replica& r : replicas) seats += r.seats.size();
    return seated().size() < seats;
  }
  /// Who computes each stage of each micro-batch of the global batch: [micro-batch][stage], places in `seated()`.
  /// Micro-batches go to the pipelines in turn; where one has an empty seat, to the others' peers of that stage in turn.
  /// Precondition: `check` finds nothing wrong, and all replicas are cut alike.
  [[nodiscard]] std::vector<std::vector<std::uint32_t>> routes() const {
    std::vector<std::vector<std::uint32_t>> place_of;  // [replica][stage]
    std::uint32_t next = 0;
    for (const replica& r : replicas) {
      auto& row = place_of.emplace_back();
      for (const seat& s : r.seats) row.push_back(s.peer != nobody ? next++ : empty);
    }
    std::vector<std::vector<std::uint32_t>> all(first_micro_batch(replicas.size()));
    std::vector<std::size_t> turn(place_of.front().size());
    for (std::size_t m = 0; m < all.size(); ++m) {
      for (std::size_t s = 0; s < turn.size(); ++s) {
        std::uint32_t peer = place_of[m % replicas.size()][s];
        while (peer == empty) peer = place_of[turn[s]++ % replicas.size()][s];
        all[m].push_back(peer);
      }
    }
    return all;
  }

  friend bool operator==(const layout&, const layout&) = default;

  /// Every replica computes every block once, every micro-batch has one replica, every peer at most one seat. Where seats
  /// are empty, another peer of the replica keeps what is missing, or replicas are cut alike and somebody computes every
  /// stage.
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
        if (s.peer != nobody) peers.push_back(s.peer);
      }
      if (next != layers) return wrong("a replica does not compute each block once");
    }
    std::sort(peers.begin(), peers.end());
    if (std::adjacent_find(peers.begin(), peers.end()) != peers.end()) return wrong("a peer has two seats");
    if (replicas.empty() || first_micro_batch(replicas.size()) != micro_batches)
      return wrong("the replicas' micro-batches are not those of the global batch");
    return has_empty_seats() ? check_detours() : result<void>{};
  }

 private:
  static constexpr std::uint32_t empty = UINT32_MAX;

  // Where each empty seat has another of its pipeline that keeps its stage, that one does it; else micro-batches go to
  // other pipelines, which must be cut alike.
  [[nodiscard]] static bool is_kept_in(const replica& r, const seat& empty_one) {
    return std::any_of(r.seats.begin(), r.seats.end(), [&](const seat& s) {
      return s.peer != nobody && nn::model_part{s.held()}.holds(empty_one.computes);
    });
  }
  [[nodiscard]] result<void> check_detours() const {
    const bool all_kept = std::all_of(replicas.begin(), replicas.end(), [](const replica& r) {
      return std::all_of(r.seats.begin(), r.seats.end(),
                         [&](const seat& s) { return s.peer != nobody || is_kept_in(r, s); });
    });
    if (all_kept) return {};
    for (const replica& r : replicas) {
      const auto& first = replicas.front().seats;
      const bool alike = std::equal(r.seats.begin(), r.seats.end(), first.begin(), first.end(),
                                    [](const seat& a, const seat& b) { return a.computes == b.computes; });
      if (!alike) return fail(errc::invalid_argument, "layout", "seats are empty, but replicas are not cut alike");
      for (const seat& s : r.seats) {
        if (holders(s.computes.first).empty()) return fail(errc::invalid_argument, "layout", "nobody computes a stage");
      }
    }
    return {};
  }
};

/// The rank whose stage `rank` keeps too, where every stage is on two ranks (Bamboo): the one behind it, the last keeps the
/// first.
[[nodiscard]] constexpr std::size_t successor(std::size_t rank, std::size_t ranks) noexcept { return (rank + 1) % ranks; }
/// And the one that keeps that of `rank`.
[[nodiscard]] constexpr std::size_t shadow_of(std::size_t rank, std::size_t ranks) noexcept {
  return (rank + ranks - 1) % ranks;
}

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
