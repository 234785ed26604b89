// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_HOST_CLOCK_HPP
#define CAUSEWAY_SIM_HOST_CLOCK_HPP

// The clock of one simulated host: the world's time, as long as nothing is wrong with it. It may run fast or slow, and jump
// forward, as a virtual machine's does after a pause; like any steady clock it never goes back.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>

#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>

namespace causeway::inline CAUSEWAY_ABI::sim {

/// Models Clock. Copies are one clock, and can be read when its world is gone.
class host_clock {
 public:
  /// `world`: the time of the world, which must not move the pointer.
  explicit host_clock(std::shared_ptr<const time_point> world) : world_{std::move(world)} {}

  [[nodiscard]] time_point now() const noexcept { return local(*world_); }

  /// What it shows at a moment of the world, if nothing changes until then. Not before the last change.
  [[nodiscard]] time_point local(time_point world) const noexcept {
    if (exact()) return world;
    return state_->shown + scaled(world - state_->since, state_->rate);
  }

  /// The first moment of the world at which it shows `local` or more.
  [[nodiscard]] time_point world(time_point shown) const noexcept {
    if (exact() || shown == no_deadline) return shown;
    if (shown <= state_->shown) return state_->since;
    const double nanoseconds = static_cast<double>((shown - state_->shown).count()) / state_->rate;
    if (nanoseconds > 4e18) return no_deadline;
    time_point when = state_->since + duration{static_cast<std::int64_t>(nanoseconds)};
    while (local(when) < shown) when = when + duration{1};
    return when;
  }

  /// From now on a second of the world is `rate` seconds here. Precondition: it is above 0.
  void set_rate(double rate) {
    CAUSEWAY_EXPECT(rate > 0);
    hold();
    state_->rate = rate;
  }

  /// Precondition: not back.
  void jump(duration forward) {
    CAUSEWAY_EXPECT(forward >= duration{0});
    hold();
    state_->shown = state_->shown + forward;
  }

 private:
  struct state {
    time_point since;  ///< in the world: the last change
    time_point shown;  ///< here, at that moment
    double rate = 1;
  };

  [[nodiscard]] bool exact() const noexcept { return state_->rate == 1 && state_->since == state_->shown; }

  static duration scaled(duration d, double by) noexcept {
    return by == 1 ? d : duration{static_cast<std::int64_t>(std::floor(static_cast<double>(d.count()) * by))};
  }

  void hold() {
    const time_point shown = now();
    state_->since = *world_;
    state_->shown = shown;
  }

  std::shared_ptr<const time_point> world_;
  std::shared_ptr<state> state_ = std::make_shared<state>();
};
static_assert(Clock<host_clock>);

}  // namespace causeway::inline CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_HOST_CLOCK_HPP
