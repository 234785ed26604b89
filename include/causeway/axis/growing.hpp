// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_GROWING_HPP
#define CAUSEWAY_AXIS_GROWING_HPP

// A trigger whose rounds grow as the model settles (Co-learning, Xu et al. 2019: the number of local epochs doubles when
// the shared model changes by less than a tolerance from round to round).

#include <causeway/axis/every.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace causeway::inline CAUSEWAY_ABI::axis {

struct growing_options {
  std::uint32_t local_steps = 20;  ///< in the first round
  std::uint32_t most = 1000;       ///< and never more than that
  std::uint32_t factor = 2;
  double tolerance = 0.01;  ///< of |change| / |parameters| in one round
};

/// H ← min(factor·H, most) whenever |mean| / |shared parameters| of a round is below the tolerance. All peers see the same
/// mean, so they grow together.
class growing {
 public:
  static constexpr part decides = part::trigger;
  static constexpr bool watches_movement = true;

  explicit growing(growing_options options = {}) : options_{options}, steps_{options.local_steps} {}

  [[nodiscard]] result<void> check(std::size_t) const;
  [[nodiscard]] std::uint32_t first(std::size_t, std::size_t) const noexcept { return options_.local_steps; }
  [[nodiscard]] std::uint32_t next(std::size_t, std::size_t) const noexcept { return steps_; }

  result<void> exchanged(auto&, const exchange_report& report) {
    if (report.movement < options_.tolerance) {
      const std::uint64_t grown = std::uint64_t{steps_} * options_.factor;
      steps_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(grown, options_.most));
    }
    return {};
  }

  void serialize(auto& ar) { ar(steps_); }

 private:
  growing_options options_;
  std::uint32_t steps_;
};
static_assert(Trigger<growing>);

}  // namespace causeway::inline CAUSEWAY_ABI::axis

#ifndef CAUSEWAY_COMPILED
#include <causeway/axis/impl/growing.ipp>
#endif

#endif  // CAUSEWAY_AXIS_GROWING_HPP
