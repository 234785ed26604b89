// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_RECOVERY_NEIGHBOUR_HPP
#define CAUSEWAY_STAGE_RECOVERY_NEIGHBOUR_HPP

// Pipelines that need neither checkpoints nor redundancy: a stage that nobody has any more is made up from the two beside
// it, and learns faster from then on (CheckFree, Blagoev et al., 2025).

#include <causeway/config/config.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>

#include <cstdint>
#include <string_view>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

/// How much each of two neighbours counts in what is made of them, by its gradient g of the last step.
enum class neighbour_weights : std::uint8_t {
  squared_norms,  ///< |g|²: the paper's
  clipped_norms,  ///< min(|g|, 1) + 0.0001: the authors' code's
};

struct neighbour_options {
  std::int64_t stages = 3;   ///< of each pipeline
  float rate_factor = 1.1F;  ///< of the learning rate of a stage that was made up, however often, for the rest of the run
  neighbour_weights weights = neighbour_weights::squared_norms;
};

namespace detail {

/// How much those blocks count. Precondition: somebody holds each.
CAUSEWAY_DECL [[nodiscard]] double neighbour_weight(const cluster_snapshot& g, const nn::block_range& blocks,
                                                    neighbour_weights how);

}  // namespace detail

namespace recovery {

/// As regroup; a stage between others that nobody has any more is made up from the stages beside it, W ← (w·W₋ + w'·W₊) /
/// (w + w'). Its optimizer begins anew, moments and count of steps. First and last stage have one neighbour only: the run
/// waits for a peer that has them. Two stages side by side are made up of those beside both (derived; the paper leaves it
/// open).
class neighbour_init {
 public:
  static constexpr std::string_view name = "neighbour_init";
  static constexpr recovery_traits traits{.lost = lost_blocks::neighbours, .cut_alike = true};

  explicit neighbour_init(neighbour_options options = {}) : options_{options}, even_{options.stages} {}

  /// It does not look back.
  [[nodiscard]] std::uint64_t interval() const noexcept { return 0; }

  result<layout> arrange(const cluster_snapshot& g) { return even_.arrange(g); }

  [[nodiscard]] static bool makes_up() noexcept { return true; }
  /// For each lost block the blocks at its place in the stages before and behind, taken as long as what is lost; where
  /// these are shorter, the last ones there are that somebody holds.
  CAUSEWAY_DECL [[nodiscard]] std::vector<made_up_block> made_up(const cluster_snapshot& g) const;
  [[nodiscard]] float rate_factor() const noexcept { return options_.rate_factor; }
  [[nodiscard]] std::uint64_t agreement() const noexcept {
    hasher h;
    h.add_value(options_.rate_factor).add_value(static_cast<std::uint64_t>(options_.weights));
    return h.finish();
  }

 private:
  neighbour_options options_;
  regroup even_;
};
static_assert(MakingUp<neighbour_init>);

}  // namespace recovery

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#ifndef CAUSEWAY_COMPILED
#include <causeway/stage/impl/recovery_neighbour.ipp>
#endif

#endif  // CAUSEWAY_STAGE_RECOVERY_NEIGHBOUR_HPP
