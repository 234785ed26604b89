// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_IMPL_BY_CHANGE_IPP
#define CAUSEWAY_AXIS_IMPL_BY_CHANGE_IPP

#include <causeway/axis/by_change.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

CAUSEWAY_DECL by_change::by_change(by_change_options options) : options_{options} {}

CAUSEWAY_DECL std::uint32_t by_change::exchanges_for(std::uint32_t local_steps, double step_seconds,
                                                     double exchange_seconds, std::size_t fragments, double share) {
  const double room = share * local_steps * step_seconds / exchange_seconds;
  const double least = std::min<double>(static_cast<double>(fragments), local_steps);
  return static_cast<std::uint32_t>(room >= local_steps ? local_steps : std::max(room, least));
}

CAUSEWAY_DECL result<void> by_change::check(std::size_t count) const {
  CAUSEWAY_TRY(detail::check_steps(options_.local_steps, "by_change"));
  const std::size_t all = slots(count);
  if (all >= count && all <= options_.local_steps) return {};
  return fail(errc::invalid_argument, "by_change",
              std::to_string(all) + " exchanges of " + std::to_string(count) + " fragments in " +
                  std::to_string(options_.local_steps) + " inner steps; take at least one each, and at most one a step");
}

CAUSEWAY_DECL std::uint32_t by_change::step_to_next(std::size_t count) {
  std::uint32_t steps = 0;
  do {
    step(count, [](std::size_t) { return false; });
    ++steps;
  } while (chosen_ == none);
  return steps;
}

CAUSEWAY_DECL bool by_change::comes_before(const turn& a, const turn& b) const {
  const bool a_late = a.since >= options_.local_steps, b_late = b.since >= options_.local_steps;
  if (a_late != b_late) return a_late;
  if (a_late) return false;
  return a.rate != b.rate ? a.rate > b.rate : a.since > b.since;
}

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_IMPL_BY_CHANGE_IPP
