// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_OPTIONS_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_OPTIONS_IPP

#include <causeway/collective/options.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL std::byte* collective_workspace::reserve(std::size_t bytes) {
  if (memory_.size() < bytes) memory_ = aligned_buffer<std::byte>{bytes};
  return memory_.data();
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_OPTIONS_IPP
