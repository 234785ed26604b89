// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_IMPL_COMMON_STEPS_IPP
#define CAUSEWAY_COMM_IMPL_COMMON_STEPS_IPP

#include <causeway/comm/common_steps.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

CAUSEWAY_DECL std::uint64_t common_steps(std::vector<std::uint64_t> said, std::uint64_t before) {
  if (said.empty()) return before;
  const auto middle = said.begin() + static_cast<std::ptrdiff_t>((said.size() - 1) / 2);
  std::nth_element(said.begin(), middle, said.end());
  return std::max(before, *middle);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_IMPL_COMMON_STEPS_IPP
