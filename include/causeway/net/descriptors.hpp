// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_DESCRIPTORS_HPP
#define CAUSEWAY_NET_DESCRIPTORS_HPP

// File descriptors. Each connection takes one, the disk needs some, and a process that has none left can neither accept a
// peer nor save a checkpoint. So the limit of the process is raised as far as it may be, and connections leave a reserve
// for everything else. The kernel gives out the lowest free number: the number of a new descriptor tells how many are open.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>

#include <cstddef>
#include <string>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/resource.h>
#endif

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

inline constexpr std::size_t most_descriptors = 65536;    ///< nobody needs more, and some programs walk over all of them
inline constexpr std::size_t reserved_descriptors = 64;   ///< for files; a quarter of the limit where that is less
inline constexpr std::size_t descriptors_of_a_link = 64;  ///< a new link may take this share (1/64) of what is left

/// How many this process may have open now.
CAUSEWAY_DECL std::size_t descriptor_limit() noexcept;

/// Raises the limit to what the process may ask for, at most `most_descriptors`. Never lowers it. The limit after that.
CAUSEWAY_DECL std::size_t raise_descriptor_limit() noexcept;

/// How many connections can still be made when `newest` is the descriptor given out last.
CAUSEWAY_DECL std::size_t spare_descriptors(std::size_t newest, std::size_t limit) noexcept;
CAUSEWAY_DECL std::size_t spare_descriptors(int newest) noexcept;

/// How many connections for data a new link should have, of `wanted`: fewer when many links share few descriptors.
CAUSEWAY_DECL std::size_t affordable_streams(std::size_t wanted, std::size_t spare) noexcept;

CAUSEWAY_DECL error no_descriptors(std::string where);

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/descriptors.ipp>
#endif

#endif  // CAUSEWAY_NET_DESCRIPTORS_HPP
