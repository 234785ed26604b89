// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_IMPL_HOST_CLOCK_IPP
#define CAUSEWAY_SIM_IMPL_HOST_CLOCK_IPP

#include <causeway/sim/host_clock.hpp>

#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

CAUSEWAY_DECL host_clock::host_clock(std::shared_ptr<const time_point> world) : world_{std::move(world)} {}

CAUSEWAY_DECL time_point host_clock::local(time_point world) const noexcept {
  if (exact()) return world;
  return state_->shown + scaled(world - state_->since, state_->rate);
}

CAUSEWAY_DECL time_point host_clock::world(time_point shown) const noexcept {
  if (exact() || shown == no_deadline) return shown;
  if (shown <= state_->shown) return state_->since;
  const double nanoseconds = static_cast<double>((shown - state_->shown).count()) / state_->rate;
  if (nanoseconds > 4e18) return no_deadline;
  time_point when = state_->since + duration{static_cast<std::int64_t>(nanoseconds)};
  while (local(when) < shown) when = when + duration{1};
  return when;
}

CAUSEWAY_DECL void host_clock::set_rate(double rate) {
  CAUSEWAY_EXPECT(rate > 0);
  hold();
  state_->rate = rate;
}

CAUSEWAY_DECL void host_clock::jump(duration forward) {
  CAUSEWAY_EXPECT(forward >= duration{0});
  hold();
  state_->shown = state_->shown + forward;
}

CAUSEWAY_DECL duration host_clock::scaled(duration d, double by) noexcept {
  return by == 1 ? d : duration{static_cast<std::int64_t>(std::floor(static_cast<double>(d.count()) * by))};
}

CAUSEWAY_DECL void host_clock::hold() {
  const time_point shown = now();
  state_->since = *world_;
  state_->shown = shown;
}

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_IMPL_HOST_CLOCK_IPP
