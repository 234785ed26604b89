// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_RECOVERY_SWAPPED_HPP
#define CAUSEWAY_STAGE_RECOVERY_SWAPPED_HPP

// Pipelines that need neither checkpoints nor redundancy, and can do without any of their stages of blocks: half of the
// micro-batches go the other way round through the first two of these, and through the last two, so that each learns to do
// the other's work and is a copy of it when it is lost (CheckFree+, Blagoev et al., 2025). Embedding and output layer are
// on a peer of their own, as in the authors' code.

#include <causeway/config/config.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>
#include <causeway/stage/recovery_neighbour.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace recovery {

/// For models with joined ends. As many pipelines as there are peers for, each of a peer for the ends and `stages` even
/// stages of blocks, at least four; the others are spare. Every other micro-batch of a pipeline goes through stages 2, 1,
/// 3, ..., S - 2, S, S - 1. A stage that nobody has any more becomes, with an optimizer that begins anew:
/// - of the first two and the last two: a copy of the other of the two;
/// - of those between: the mean of the nearest before and behind that are there, weighted as by neighbour_init.
/// If both of two are lost, or the ends, the run stands until a peer that has them is back.
class swapped_neighbours {
 public:
  static constexpr std::string_view name = "swapped_neighbours";
  static constexpr recovery_traits traits{.lost = lost_blocks::neighbours, .joined_ends = true, .cut_alike = true};

  explicit swapped_neighbours(neighbour_options options = {.stages = 4}) : options_{options} {}

  /// It does not look back.
  [[nodiscard]] std::uint64_t interval() const noexcept { return 0; }

  /// errc::invalid_argument: fewer than four stages, or fewer blocks.
  CAUSEWAY_DECL result<layout> arrange(const cluster_snapshot& g);

  [[nodiscard]] static bool makes_up() noexcept { return true; }
  CAUSEWAY_DECL [[nodiscard]] std::vector<made_up_block> made_up(const cluster_snapshot& g) const;
  [[nodiscard]] float rate_factor() const noexcept { return options_.rate_factor; }
  [[nodiscard]] std::uint64_t agreement() const noexcept {
    hasher h;
    h.add_value(options_.rate_factor).add_value(static_cast<std::uint64_t>(options_.weights)).add_value(options_.stages);
    return h.finish();
  }

 private:
  // What stage `s` is made of: two stages, and how much the first counts. Nothing to make it of: stages of no blocks.
  struct origin {
    nn::block_range before{}, behind{};
    float share = 1;
  };
  CAUSEWAY_DECL [[nodiscard]] origin origin_of(std::size_t s, const std::vector<nn::block_range>& row,
                                               const cluster_snapshot& g) const;

  neighbour_options options_;
};
static_assert(MakingUp<swapped_neighbours>);

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::recovery

#ifndef CAUSEWAY_COMPILED
#include <causeway/stage/impl/recovery_swapped.ipp>
#endif

#endif  // CAUSEWAY_STAGE_RECOVERY_SWAPPED_HPP
