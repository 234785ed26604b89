// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_RECOVERY_REDUNDANT_HPP
#define CAUSEWAY_STAGE_RECOVERY_REDUNDANT_HPP

// Every peer keeps the stage behind its own up to date, and computes it too when its peer is lost: the redundant state of
// Bamboo (Thorpe et al., NSDI 2023), alone. A step under way is tried again as a whole; recovery_redundant_forward.hpp goes
// on with it. The first stage is kept by the second rank, so that nothing has to move when that computes it too, or, as in
// the paper, by the last one.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace recovery {

enum class first_stage : std::uint8_t {
  with_second,  ///< the second rank keeps it
  with_last,    ///< the last one; where pipelines go on with fewer peers, the second fetches it
};

/// Pipelines of `stages` even stages. A lost peer's neighbour takes its stage over at once, without any block moving. All
/// are laid out anew when a pipeline has lost two neighbours, when spare peers can fill every gap, or when there are enough
/// peers for another pipeline.
///
/// Memory: of parameters and optimizer state twice as much. Bytes: each block's gradient is summed over twice as many.
class redundant {
 public:
  static constexpr std::string_view name = "redundant";
  static constexpr recovery_traits traits{};

  explicit redundant(std::int64_t stages = 2, first_stage first = first_stage::with_second)
      : stages_{stages}, first_{first}, even_{stages} {}

  /// It does not look back.
  [[nodiscard]] std::uint64_t interval() const noexcept { return 0; }

  CAUSEWAY_DECL result<layout> arrange(const cluster_snapshot& g);

 private:
  // The pipelines as they were, with neighbours in the place of who is gone; none if one of them cannot be mended.
  CAUSEWAY_DECL [[nodiscard]] std::optional<layout> mended(const cluster_snapshot& g) const;

  CAUSEWAY_DECL [[nodiscard]] std::optional<std::vector<assignment>> mended(const std::vector<const present_peer*>& row,
                                                                            std::int64_t layers) const;

  // Who becomes the first may fetch the lost first stage, which the last has.
  CAUSEWAY_DECL [[nodiscard]] bool can_have(const present_peer& p, const nn::block_range& r,
                                            const present_peer& last) const;

  // Whether whole pipelines can be made of as many as there are, where now peers do two stages.
  CAUSEWAY_DECL [[nodiscard]] bool can_fill(const layout& standing, const cluster_snapshot& g) const;

  CAUSEWAY_DECL [[nodiscard]] layout with_shadows(layout l) const;

  CAUSEWAY_DECL [[nodiscard]] std::vector<nn::block_range> kept_by(std::size_t s,
                                                                   const std::vector<assignment>& assignments) const;

  std::int64_t stages_;
  first_stage first_;
  regroup even_;
};
static_assert(Recovery<redundant>);

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::recovery

#ifndef CAUSEWAY_COMPILED
#include <causeway/stage/impl/recovery_redundant.ipp>
#endif

#endif  // CAUSEWAY_STAGE_RECOVERY_REDUNDANT_HPP
