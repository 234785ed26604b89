// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_IMPL_MODULE_GROUPS_IPP
#define CAUSEWAY_AXIS_IMPL_MODULE_GROUPS_IPP

// Bodies of axis/module_groups.hpp.

#include <causeway/axis/module_groups.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

CAUSEWAY_DECL module_paths every_path(const std::vector<std::uint32_t>& versions, std::uint32_t peers) {
  module_paths paths(peers);
  for (std::uint32_t p = 0; p < peers; ++p) {
    paths[p].assign(versions.size() + 1, 0);
    std::uint32_t rest = p;
    for (std::size_t level = versions.size(); level > 0; --level) {
      paths[p][level] = rest % versions[level - 1];
      rest /= versions[level - 1];
    }
  }
  return paths;
}

CAUSEWAY_DECL result<void> module_groups::check(std::uint32_t peers) const {
  const auto length = [&](const auto& path) { return path.size() == paths[0].size(); };
  if (paths.size() != peers || !std::all_of(paths.begin(), paths.end(), length)) {
    return fail(errc::invalid_argument, "module_groups",
                std::to_string(paths.size()) + " paths for " + std::to_string(peers) +
                    " peers; give each peer one, with a version of each fragment");
  }
  const auto counts = [](double w) { return w > 0 && std::isfinite(w); };
  if (weights.empty() || (weights.size() == peers && std::all_of(weights.begin(), weights.end(), counts))) return {};
  return fail(errc::invalid_argument, "module_groups",
              "`weights` must have a positive number for each peer, or none at all");
}

CAUSEWAY_DECL result<void> module_groups::check_fragments(std::size_t count) const {
  if (paths[0].size() == count) return {};
  return fail(errc::invalid_argument, "module_groups",
              "paths of " + std::to_string(paths[0].size()) + " fragments, but the model is cut into " +
                  std::to_string(count) + "; axis::consecutive makes one of what is not in a block, then those of blocks");
}

CAUSEWAY_DECL std::vector<net::peer_index> module_groups::members(const group_question& q) const {
  std::vector<net::peer_index> group;
  for (net::peer_index p = 0; p < q.peers; ++p) {
    if (paths[p][q.fragment] == paths[q.self][q.fragment]) group.push_back(p);
  }
  return group;
}

CAUSEWAY_DECL float module_groups::weight(const group_question& q) const {
  return weights.empty() ? 1.0F : static_cast<float>(weights[q.self]);
}

CAUSEWAY_DECL float module_groups::length(const group_question& q) const {
  if (!lengthen) return 1.0F;
  module_paths different;  // several peers may train one path
  for (const net::peer_index p : members(q)) {
    if (std::find(different.begin(), different.end(), paths[p]) == different.end()) different.push_back(paths[p]);
  }
  return std::sqrt(static_cast<float>(different.size()));
}

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_IMPL_MODULE_GROUPS_IPP
