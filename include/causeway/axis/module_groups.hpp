// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_MODULE_GROUPS_HPP
#define CAUSEWAY_AXIS_MODULE_GROUPS_HPP

// Models made of modules, several versions of each, of which a peer trains one path (DiPaCo: Douillard et al. 2024). A
// fragment is a level of the path, and those who exchange it are the peers that have the same version of it: another group
// for each fragment, and the same ones in every round. So the peers of a group hold equal shared parameters without a mean
// over all, and nobody holds the whole model.

#include <causeway/axis/groups.hpp>
#include <causeway/axis/parts.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

/// Of each peer, which version of each fragment it has. Where peers come and go: of each path that there is.
using module_paths = std::vector<std::vector<std::uint32_t>>;

/// The paths through levels of `versions` modules, peer by peer and again from the first when all are taken, the last level
/// changing first. In front there is a fragment that all share, as axis::consecutive has it.
CAUSEWAY_DECL [[nodiscard]] module_paths every_path(const std::vector<std::uint32_t>& versions, std::uint32_t peers);

/// For comm::rounds: the peers that have the same version of a fragment. All peers start with equal parameters, as versions
/// of a level do that were copied from one model trained before; they part when their data do. Where peers come and go, a
/// newcomer gets the path that the fewest peers have, and keeps it (comm/path_modules.hpp).
struct module_groups {
  static constexpr part decides = part::group;
  static constexpr bool everybody = false;
  static constexpr bool lasting = true;

  /// One version of a fragment.
  struct module {
    std::size_t fragment = 0;
    std::uint32_t version = 0;
  };

  module_paths paths{};  ///< [peer][fragment], equal on all peers; where these come and go [path][fragment]
  /// What each peer's row counts, say the documents of its shard; none: all alike. Where peers come and go: what the rows
  /// of a path's peers count together, which they divide by their samples; none: each row by its samples.
  std::vector<double> weights{};

  /// Whether a module's mean pseudo-gradient is made √P times longer, P the number of paths that have it: a mean of many is
  /// shorter than one of few (DiPaCo, section 2.7).
  bool lengthen = false;

  /// `peers`: 0 where they come and go.
  CAUSEWAY_DECL [[nodiscard]] result<void> check(std::uint32_t peers) const;
  CAUSEWAY_DECL [[nodiscard]] result<void> check_fragments(std::size_t count) const;

  CAUSEWAY_DECL [[nodiscard]] std::vector<net::peer_index> members(const group_question& q) const;
  CAUSEWAY_DECL [[nodiscard]] float weight(const group_question& q) const;
  CAUSEWAY_DECL [[nodiscard]] float length(const group_question& q) const;
  void formed(const group_question&) {}
  void serialize(auto&) {}

  /// All that a path has, fragment by fragment, in the order of their versions.
  CAUSEWAY_DECL [[nodiscard]] std::vector<module> modules() const;
  [[nodiscard]] bool has(std::size_t path, const module& m) const { return paths[path][m.fragment] == m.version; }
  /// How many times longer a mean is made that peers of these paths have put something into.
  CAUSEWAY_DECL [[nodiscard]] float length_of(const std::vector<std::uint32_t>& those) const;
};

static_assert(Group<module_groups>);

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#ifndef CAUSEWAY_COMPILED
#include <causeway/axis/impl/module_groups.ipp>
#endif

#endif  // CAUSEWAY_AXIS_MODULE_GROUPS_HPP
