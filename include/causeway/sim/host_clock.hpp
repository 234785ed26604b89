// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_HOST_CLOCK_HPP
#define CAUSEWAY_SIM_HOST_CLOCK_HPP

// The clock of one simulated host: the world's time, as long as nothing is wrong with it. It may run fast or slow, and jump
// forward, as a virtual machine's does after a pause; like any steady clock it never goes back.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>

#include <cstdint>
#include <memory>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

/// Models Clock. Copies are one clock, and can be read when its world is gone.
class host_clock {
 public:
  /// `world`: the time of the world, which must not move the pointer.
  CAUSEWAY_DECL explicit host_clock(std::shared_ptr<const time_point> world);

  [[nodiscard]] time_point now() const noexcept { return local(*world_); }

  /// What it shows at a moment of the world, if nothing changes until then. Not before the last change.
  CAUSEWAY_DECL [[nodiscard]] time_point local(time_point world) const noexcept;

  /// The first moment of the world at which it shows `local` or more.
  CAUSEWAY_DECL [[nodiscard]] time_point world(time_point shown) const noexcept;

  /// From now on a second of the world is `rate` seconds here. Precondition: it is above 0.
  CAUSEWAY_DECL void set_rate(double rate);

  /// Precondition: not back.
  CAUSEWAY_DECL void jump(duration forward);

 private:
  struct state {
    time_point since;  ///< in the world: the last change
    time_point shown;  ///< here, at that moment
    double rate = 1;
  };

  [[nodiscard]] bool exact() const noexcept { return state_->rate == 1 && state_->since == state_->shown; }

  CAUSEWAY_DECL static duration scaled(duration d, double by) noexcept;

  CAUSEWAY_DECL void hold();

  std::shared_ptr<const time_point> world_;
  std::shared_ptr<state> state_ = std::make_shared<state>();
};
static_assert(Clock<host_clock>);

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#ifndef CAUSEWAY_COMPILED
#include <causeway/sim/impl/host_clock.ipp>
#endif

#endif  // CAUSEWAY_SIM_HOST_CLOCK_HPP
