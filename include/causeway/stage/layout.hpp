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

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

/// In the place of a peer: nobody is assigned.
inline constexpr std::uint64_t nobody = 0;

/// Who computes a stage of one replica, and what it keeps besides.
struct assignment {
  std::uint64_t peer = nobody;
  nn::block_range computes;
  /// Rising and apart, `computes` within one of them: what else it keeps up to date, for when another peer is lost. None:
  /// what it computes.
  std::vector<nn::block_range> keeps{};

  CAUSEWAY_DECL [[nodiscard]] std::vector<nn::block_range> held() const;
  CAUSEWAY_DECL [[nodiscard]] bool holds(std::int64_t block) const;
  friend bool operator==(const assignment&, const assignment&) = default;
};

/// One whole pipeline.
struct replica {
  std::vector<assignment> assignments;  ///< in the order of the model
  std::uint32_t micro_batches = 0;      ///< its share of the global batch
  bool ring = false;                    ///< the first has both ends of the model; see plan::swapped_routes

  /// Those who have an assignment, in that order.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::uint64_t> assigned() const;
  friend bool operator==(const replica&, const replica&) = default;
};

/// Peers without an assignment are spare.
struct layout {
  std::vector<replica> replicas;

  struct place {
    std::size_t replica = 0, rank = 0;
  };
  /// Where a peer is; nullptr: spare.
  CAUSEWAY_DECL [[nodiscard]] const assignment* find(std::uint64_t peer, place* at = nullptr) const;
  /// The peers that hold a block, in the order of replicas and ranks.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::uint64_t> holders(std::int64_t block) const;
  /// The number of the first micro-batch of a replica.
  CAUSEWAY_DECL [[nodiscard]] std::uint32_t first_micro_batch(std::size_t of) const;

  /// Those who have an assignment, in the order of replicas and ranks.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::uint64_t> assigned() const;
  CAUSEWAY_DECL [[nodiscard]] bool has_unassigned() const;
  /// Who computes each stage of each micro-batch of the global batch: [micro-batch][stage], places in `assigned()`.
  /// Micro-batches go to the pipelines in turn; where one has nobody for a stage, to the others' peers of that stage in
  /// turn. Precondition: `check` finds nothing wrong, and all replicas are cut alike.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::vector<std::uint32_t>> routes() const;
  /// How many of the global batch go through each replica's peer of stage `rank`: its replica's, or where micro-batches
  /// take detours, those whose way leads through it. Precondition: `check` finds nothing wrong.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::uint32_t> micro_batches_at(std::size_t rank) const;

  friend bool operator==(const layout&, const layout&) = default;

  /// Every replica computes every block once, every micro-batch has one replica, every peer at most one assignment. Where a
  /// stage has nobody, another peer of the replica keeps what is missing, or replicas are cut alike and somebody computes
  /// every stage.
  CAUSEWAY_DECL [[nodiscard]] result<void> check(std::int64_t layers, std::uint32_t micro_batches) const;

 private:
  static constexpr std::uint32_t empty = UINT32_MAX;

  // Where each stage without a peer has another of its pipeline that keeps it, that one does it; else micro-batches go to
  // other pipelines, which must be cut alike.
  CAUSEWAY_DECL [[nodiscard]] static bool is_kept_in(const replica& r, const assignment& empty_one);
  CAUSEWAY_DECL [[nodiscard]] bool has_detours() const;
  CAUSEWAY_DECL [[nodiscard]] result<void> check_detours() const;
};

/// The rank whose stage `rank` keeps too, where every stage is on two ranks (Bamboo): the one behind it, the last keeps the
/// first.
[[nodiscard]] constexpr std::size_t successor(std::size_t rank, std::size_t ranks) noexcept { return (rank + 1) % ranks; }
/// And the one that keeps that of `rank`.
[[nodiscard]] constexpr std::size_t shadow_of(std::size_t rank, std::size_t ranks) noexcept {
  return (rank + ranks - 1) % ranks;
}

/// `micro_batches` over `replicas`, as evenly as can be; the first get one more.
CAUSEWAY_DECL [[nodiscard]] std::vector<std::uint32_t> even_shares(std::uint32_t micro_batches, std::size_t replicas);

/// `layers` blocks in `stages` ranges, as evenly as can be. Precondition: 1 <= stages <= layers.
CAUSEWAY_DECL [[nodiscard]] std::vector<nn::block_range> even_cut(std::int64_t layers, std::int64_t stages);

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#ifndef CAUSEWAY_COMPILED
#include <causeway/stage/impl/layout.ipp>
#endif

#endif  // CAUSEWAY_STAGE_LAYOUT_HPP
