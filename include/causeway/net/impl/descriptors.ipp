// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_DESCRIPTORS_IPP
#define CAUSEWAY_NET_IMPL_DESCRIPTORS_IPP

#include <causeway/net/descriptors.hpp>

#include <algorithm>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL std::size_t descriptor_limit() noexcept {
#if defined(__unix__) || defined(__APPLE__)
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) return static_cast<std::size_t>(std::min<rlim_t>(limit.rlim_cur, SIZE_MAX));
#endif
  return most_descriptors;
}

CAUSEWAY_DECL std::size_t raise_descriptor_limit() noexcept {
#if defined(__unix__) || defined(__APPLE__)
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    const rlim_t wanted = std::min<rlim_t>(limit.rlim_max, most_descriptors);
    if (limit.rlim_cur < wanted) {
      limit.rlim_cur = wanted;
      (void)::setrlimit(RLIMIT_NOFILE, &limit);
    }
  }
#endif
  return descriptor_limit();
}

CAUSEWAY_DECL std::size_t spare_descriptors(std::size_t newest, std::size_t limit) noexcept {
  const std::size_t reserve = std::min(reserved_descriptors, limit / 4);
  const std::size_t usable = limit - reserve;
  return newest + 1 < usable ? usable - newest - 1 : 0;
}

CAUSEWAY_DECL std::size_t spare_descriptors(int newest) noexcept {
  return newest < 0 ? 0 : spare_descriptors(static_cast<std::size_t>(newest), descriptor_limit());
}

CAUSEWAY_DECL std::size_t affordable_streams(std::size_t wanted, std::size_t spare) noexcept {
  return std::clamp<std::size_t>(spare / descriptors_of_a_link, 1, std::max<std::size_t>(wanted, 1));
}

CAUSEWAY_DECL error no_descriptors(std::string where) {
  return fail(errc::io_failed, std::move(where),
              "this process may not open more files and connections; raise the limit with ulimit -n");
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_DESCRIPTORS_IPP
