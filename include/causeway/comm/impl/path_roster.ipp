// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_IMPL_PATH_ROSTER_IPP
#define CAUSEWAY_COMM_IMPL_PATH_ROSTER_IPP

#include <causeway/comm/path_roster.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

CAUSEWAY_DECL path_roster::path_roster() : peers_(most), paths_(most, none) {}

CAUSEWAY_DECL std::uint32_t path_roster::path_of(std::uint64_t peer, std::size_t paths) const {
  for (std::size_t i = 0; i < most && paths_[i] != none; ++i) {
    if (peers_[i] == peer) return paths_[i] < paths ? paths_[i] : none;
  }
  return none;
}

CAUSEWAY_DECL std::vector<std::uint32_t> path_roster::paths_of(const std::vector<std::uint64_t>& peers,
                                                               std::size_t paths) const {
  std::vector<std::uint32_t> all;
  for (const std::uint64_t peer : peers) all.push_back(path_of(peer, paths));
  return all;
}

CAUSEWAY_DECL void path_roster::admit(const std::vector<std::uint64_t>& present, std::size_t paths) {
  std::vector<std::uint32_t> theirs = paths_of(present, paths), there(paths);
  for (const std::uint32_t path : theirs) {
    if (path != none) ++there[path];
  }
  for (std::uint32_t& path : theirs) {
    if (path != none) continue;
    path = static_cast<std::uint32_t>(std::min_element(there.begin(), there.end()) - there.begin());
    ++there[path];
  }
  std::vector<std::uint64_t> sorted = present, known = present;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < most && paths_[i] != none; ++i) {
    if (std::binary_search(sorted.begin(), sorted.end(), peers_[i])) continue;
    known.push_back(peers_[i]);
    theirs.push_back(paths_[i]);
  }
  known.resize(most);  // in place below: others may hold where it lies
  theirs.resize(most, none);
  std::fill(std::find(theirs.begin(), theirs.end(), none) - theirs.begin() + known.begin(), known.end(), 0);
  std::copy(known.begin(), known.end(), peers_.begin());
  std::copy(theirs.begin(), theirs.end(), paths_.begin());
}

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_IMPL_PATH_ROSTER_IPP
