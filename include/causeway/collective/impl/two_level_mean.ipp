// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_TWO_LEVEL_MEAN_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_TWO_LEVEL_MEAN_IPP

// Bodies of collective/two_level_mean.hpp.

#include <causeway/collective/two_level_mean.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

CAUSEWAY_DECL void held_transport::hold(group_view group) {
  transport_ = std::make_unique<net::any_transport>(std::move(group));
}

CAUSEWAY_INLINE held_transport& held_transport::operator=(held_transport&& other) noexcept {
  std::swap(transport_, other.transport_);
  return *this;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

#endif  // CAUSEWAY_COLLECTIVE_IMPL_TWO_LEVEL_MEAN_IPP
