// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_DESCRIPTORS_HPP
#define CAUSEWAY_NET_DESCRIPTORS_HPP

// File descriptors. Each connection takes one, the disk needs some, and a process that has none left can neither accept a
// peer nor save a checkpoint. So the limit of the process is raised as far as it may be, and connections leave a reserve
// for everything else. The kernel gives out the lowest free number: the number of a new descriptor tells how many are open.

#include <causeway/core/result.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/resource.h>
#endif

namespace causeway::inline CAUSEWAY_ABI::net::detail {

inline constexpr std::size_t most_descriptors = 65536;    ///< nobody needs more, and some programs walk over all of them
inline constexpr std::size_t reserved_descriptors = 64;   ///< for files; a quarter of the limit where that is less
inline constexpr std::size_t descriptors_of_a_link = 64;  ///< a new link may take this share (1/64) of what is left

/// How many this process may have open now.
inline std::size_t descriptor_limit() noexcept {
#if defined(__unix__) || defined(__APPLE__)
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) return static_cast<std::size_t>(std::min<rlim_t>(limit.rlim_cur, SIZE_MAX));
#endif
  return most_descriptors;
}

/// Raises the limit to what the process may ask for, at most `most_descriptors`. Never lowers it. The limit after that.
inline std::size_t raise_descriptor_limit() noexcept {
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

/// How many connections can still be made when `newest` is the descriptor given out last.
inline std::size_t spare_descriptors(std::size_t newest, std::size_t limit) noexcept {
  const std::size_t reserve = std::min(reserved_descriptors, limit / 4);
  const std::size_t usable = limit - reserve;
  return newest + 1 < usable ? usable - newest - 1 : 0;
}
inline std::size_t spare_descriptors(int newest) noexcept {
  return newest < 0 ? 0 : spare_descriptors(static_cast<std::size_t>(newest), descriptor_limit());
}

/// How many connections for data a new link should have, of `wanted`: fewer when many links share few descriptors.
inline std::size_t affordable_streams(std::size_t wanted, std::size_t spare) noexcept {
  return std::clamp<std::size_t>(spare / descriptors_of_a_link, 1, std::max<std::size_t>(wanted, 1));
}

inline error no_descriptors(std::string where) {
  return fail(errc::io_failed, std::move(where),
              "this process may not open more files and connections; raise the limit with ulimit -n");
}

}  // namespace causeway::inline CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_DESCRIPTORS_HPP
