// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_BY_SPEED_HPP
#define CAUSEWAY_AXIS_BY_SPEED_HPP

// A trigger that gives slow peers fewer inner steps, so that all come at about the same time (dynamic local updates, DyLU;
// Liu et al. 2024, section 4). Speeds are inner steps a second of computing, without what a peer waited.

#include <causeway/axis/every.hpp>
#include <causeway/axis/speeds.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

struct by_speed_options {
  std::uint32_t local_steps = 500;  ///< H, of the peer that sets the pace
  /// Which speed sets the pace: 1 is the largest, 0.9 the 90th percentile (nearest rank), so that one peer that was
  /// measured wrongly does not shrink everybody's work. Faster peers take H steps as well.
  double percentile = 1;
};

/// A peer of speed v takes max(1, floor(v / v_ref · H)) inner steps between its exchanges, at most H. In comm::rounds all
/// peers tell each other their speeds after every exchange (8 bytes each), which of stages are those of their pipelines; in
/// comm::async_parameter_server speeds come with the pushes, and the answer brings the number. What is measured is time: a
/// run repeats to the bit only on a clock that does.
class by_speed {
 public:
  static constexpr part decides = part::trigger;
  static constexpr bool watches_movement = false;
  static constexpr bool follows_speed = true;

  explicit by_speed(by_speed_options options = {}) : options_{options}, steps_{options.local_steps} {}

  [[nodiscard]] const by_speed_options& options() const noexcept { return options_; }

  CAUSEWAY_DECL [[nodiscard]] result<void> check(std::size_t) const;
  [[nodiscard]] std::uint32_t first(std::size_t, std::size_t) const noexcept { return options_.local_steps; }
  [[nodiscard]] std::uint32_t next(std::size_t, std::size_t) const noexcept { return steps_; }

  /// Inner steps for a peer of `speed` among peers of `speeds`; 0, negative and not finite mean unknown.
  CAUSEWAY_DECL [[nodiscard]] std::uint32_t steps_for(double speed, std::span<const double> speeds) const;

  /// Tells all peers this one's speed.
  result<void> exchanged(auto& ctx, const exchange_report& report) {
    std::vector<double> speeds;
    CAUSEWAY_TRY(detail::speeds_of_all(ctx, report.steps, report.compute_seconds, heard_, speeds));
    ++heard_;
    steps_ = steps_for(speeds[ctx.self()], speeds);
    return {};
  }

  void serialize(auto& ar) { ar(steps_, heard_); }

 private:
  static bool is_known(double speed) { return std::isfinite(speed) && speed > 0; }

  by_speed_options options_;
  std::uint32_t steps_;
  std::uint64_t heard_ = 0;  ///< exchanges of speeds so far
};

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#ifndef CAUSEWAY_COMPILED
#include <causeway/axis/impl/by_speed.ipp>
#endif

#endif  // CAUSEWAY_AXIS_BY_SPEED_HPP
