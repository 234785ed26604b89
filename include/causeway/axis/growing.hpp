// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_GROWING_HPP
#define CAUSEWAY_AXIS_GROWING_HPP

// A trigger whose rounds grow as the model settles, and are cycles of the learning rate (Co-learning, Xu et al. 2019: the
// number of local epochs doubles when the shared model changes by less than a tolerance from round to round; in each round
// the rate falls, and the next begins with the first one again).

#include <causeway/axis/every.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

struct growing_options {
  std::uint32_t local_steps = 20;  ///< in the first round
  std::uint32_t most = 1000;       ///< and never more than that
  std::uint32_t factor = 2;
  double tolerance = 0.01;  ///< of |change| / |parameters| in one round
  float cycle_end = 1.0F;   ///< what is left of the learning rate at the end of a round; 1: there is no cycle
};

/// H ← min(factor·H, most) whenever |mean| / |shared parameters| of a round is at most the tolerance. All peers see the
/// same mean, so they grow together. Step j = 0, 1, ... of a round has the schedule's rate times cycle_end^(j/H).
class growing {
 public:
  static constexpr part decides = part::trigger;
  static constexpr bool watches_movement = true;

  explicit growing(growing_options options = {}) : options_{options}, steps_{options.local_steps} {}

  CAUSEWAY_DECL [[nodiscard]] result<void> check(std::size_t) const;
  [[nodiscard]] std::uint32_t first(std::size_t, std::size_t) const noexcept { return options_.local_steps; }
  [[nodiscard]] std::uint32_t next(std::size_t, std::size_t) const noexcept { return steps_; }

  /// Of the learning rate, `since` inner steps after the last exchange.
  CAUSEWAY_DECL [[nodiscard]] float rate_factor(std::uint32_t since) const;

  result<void> exchanged(auto&, const exchange_report& report) {
    if (report.movement <= options_.tolerance) {
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

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#ifndef CAUSEWAY_COMPILED
#include <causeway/axis/impl/growing.ipp>
#endif

#endif  // CAUSEWAY_AXIS_GROWING_HPP
