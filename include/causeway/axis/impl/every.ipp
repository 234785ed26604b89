// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_IMPL_EVERY_IPP
#define CAUSEWAY_AXIS_IMPL_EVERY_IPP

#include <causeway/axis/every.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis { namespace detail {

CAUSEWAY_DECL result<void> check_steps(std::uint32_t steps, const char* who) {
  if (steps > 0) return {};
  return fail(errc::invalid_argument, who, "0 inner steps between exchanges; set it to 1 or more");
}

}}}}  // namespace causeway::CAUSEWAY_ABI::axis::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

CAUSEWAY_DECL result<void> staggered::check(std::size_t count) const {
  CAUSEWAY_TRY(detail::check_steps(local_steps, "staggered"));
  if (count <= local_steps) return {};
  return fail(errc::invalid_argument, "staggered",
              std::to_string(count) + " fragments in " + std::to_string(local_steps) +
                  " inner steps; take fewer fragments or more steps, so that each has a step of its own");
}

CAUSEWAY_DECL std::uint32_t staggered::first(std::size_t f, std::size_t count) const noexcept {
  const std::uint64_t share = (f + 1) * std::uint64_t{local_steps};
  return static_cast<std::uint32_t>((share + count - 1) / count);
}

CAUSEWAY_DECL periods::periods(std::vector<std::uint32_t> steps) : steps_{std::move(steps)} {}

CAUSEWAY_DECL result<void> periods::check(std::size_t) const {
  if (steps_.empty()) return detail::check_steps(0, "periods");
  for (const std::uint32_t s : steps_) CAUSEWAY_TRY(detail::check_steps(s, "periods"));
  return {};
}

CAUSEWAY_DECL std::uint32_t periods::first(std::size_t f, std::size_t) const noexcept {
  return steps_[f < steps_.size() ? f : steps_.size() - 1];
}

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_IMPL_EVERY_IPP
