// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_REGION_LABEL_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_REGION_LABEL_IPP

// Bodies of collective/region_label.hpp.

#include <causeway/collective/region_label.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL region_list regions_by_label(const std::vector<std::uint32_t>& own, std::uint32_t fewest) {
  std::map<std::uint32_t, std::vector<net::peer_index>> named;
  for (net::peer_index p = 0; p < own.size(); ++p) {
    if (own[p] != region_label::any) named[own[p]].push_back(p);
  }
  region_list all;
  for (auto& [name, peers] : named) all.push_back(std::move(peers));
  all.resize(std::max<std::size_t>({all.size(), fewest, 1}));
  for (net::peer_index p = 0; p < own.size(); ++p) {
    if (own[p] != region_label::any) continue;
    const auto fewer = [](const auto& a, const auto& b) { return a.size() < b.size(); };
    std::min_element(all.begin(), all.end(), fewer)->push_back(p);
  }
  std::erase_if(all, [](const auto& peers) { return peers.empty(); });
  return all;
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_REGION_LABEL_IPP
