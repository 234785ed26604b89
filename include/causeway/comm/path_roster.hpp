// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_PATH_ROSTER_HPP
#define CAUSEWAY_COMM_PATH_ROSTER_HPP

// Which peer trains which path, where peers come and go (axis::module_groups). It is part of what all peers hold alike, and
// changes with a record of the membership only: everybody finds the same path for each newcomer, and nobody has to be
// asked.

#include <causeway/config/config.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// Peers by their identities. A peer keeps its path while it is away; where too many are known, those who were away longest
/// are forgotten, and are newcomers when they come back. Fixed in size: 12 bytes for each peer that it has room for.
class path_roster {
 public:
  static constexpr std::size_t most = 4096;  ///< as membership::max_members
  static constexpr std::uint32_t none = UINT32_MAX;

  CAUSEWAY_DECL path_roster();

  /// Where there are so many paths; `none`: that peer has none of them. Cost: one pass over those who are known.
  CAUSEWAY_DECL [[nodiscard]] std::uint32_t path_of(std::uint64_t peer, std::size_t paths) const;
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::uint32_t> paths_of(const std::vector<std::uint64_t>& peers,
                                                                  std::size_t paths) const;

  /// These are there now. Who of them has no path gets, in their order, the one that the fewest of them have, the first of
  /// several such.
  CAUSEWAY_DECL void admit(const std::vector<std::uint64_t>& present, std::size_t paths);

  void serialize(auto& ar) { ar(peers_, paths_); }

 private:
  std::vector<std::uint64_t> peers_;  ///< those who were there last come first
  std::vector<std::uint32_t> paths_;  ///< of each; `none` from where there are no more peers
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/comm/impl/path_roster.ipp>
#endif

#endif  // CAUSEWAY_COMM_PATH_ROSTER_HPP
