// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_IMPL_MODULE_GROUPS_IPP
#define CAUSEWAY_AXIS_IMPL_MODULE_GROUPS_IPP

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
  const bool changing = peers == 0;
  const auto length = [&](const auto& path) { return path.size() == paths[0].size(); };
  if (paths.empty() || (!changing && paths.size() != peers) || !std::all_of(paths.begin(), paths.end(), length)) {
    return fail(errc::invalid_argument, "module_groups",
                std::to_string(paths.size()) + " paths" + (changing ? "" : " for " + std::to_string(peers) + " peers") +
                    "; give each peer one, or where peers come and go name each, with a version of each fragment");
  }
  const auto counts = [](double w) { return w > 0 && std::isfinite(w); };
  if (weights.empty() || (weights.size() == paths.size() && std::all_of(weights.begin(), weights.end(), counts))) return {};
  return fail(errc::invalid_argument, "module_groups",
              "`weights` must have a positive number for each peer, where peers come and go for each path, or none at all");
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

CAUSEWAY_DECL float module_groups::length(const group_question& q) const { return lengthen ? length_of(members(q)) : 1.0F; }

CAUSEWAY_DECL std::vector<module_groups::module> module_groups::modules() const {
  std::vector<module> all;
  for (std::size_t f = 0; f < paths[0].size(); ++f) {
    std::vector<std::uint32_t> versions;
    for (const auto& path : paths) versions.push_back(path[f]);
    std::sort(versions.begin(), versions.end());
    versions.erase(std::unique(versions.begin(), versions.end()), versions.end());
    for (const std::uint32_t v : versions) all.push_back({f, v});
  }
  return all;
}

CAUSEWAY_DECL float module_groups::length_of(const std::vector<std::uint32_t>& those) const {
  if (!lengthen || those.empty()) return 1.0F;
  module_paths different;  // several peers may train one path
  for (const std::uint32_t p : those) {
    if (std::find(different.begin(), different.end(), paths[p]) == different.end()) different.push_back(paths[p]);
  }
  return std::sqrt(static_cast<float>(different.size()));
}

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_IMPL_MODULE_GROUPS_IPP
