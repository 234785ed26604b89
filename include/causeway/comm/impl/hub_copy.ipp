// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_IMPL_HUB_COPY_IPP
#define CAUSEWAY_COMM_IMPL_HUB_COPY_IPP

#include <causeway/comm/hub_copy.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

CAUSEWAY_DECL void copy_parts(std::span<const std::span<std::byte>> from, std::span<const std::span<std::byte>> to) {
  CAUSEWAY_EXPECT(from.size() == to.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    CAUSEWAY_EXPECT(from[i].size() == to[i].size());
    std::copy(from[i].begin(), from[i].end(), to[i].begin());
  }
}

CAUSEWAY_DECL std::vector<std::span<std::byte>> part_room::like(std::span<const std::span<std::byte>> parts) {
  memory.resize(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) memory[i].resize(parts[i].size());
  return {memory.begin(), memory.end()};
}

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_IMPL_HUB_COPY_IPP
