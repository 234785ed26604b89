// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_IMPL_COMMON_CUT_IPP
#define CAUSEWAY_TRAIN_IMPL_COMMON_CUT_IPP

// Bodies of train/common_cut.hpp.

#include <causeway/train/common_cut.hpp>

#include <algorithm>
#include <cstddef>

namespace causeway { inline namespace CAUSEWAY_ABI {

CAUSEWAY_DECL held_rounds newest_rounds(const std::vector<cut>& cuts) {
  held_rounds newest;
  newest.fill(no_round);
  for (std::size_t i = 0; i < std::min(cuts.size(), newest.size()); ++i) newest[i] = cuts[cuts.size() - 1 - i].round;
  return newest;
}

CAUSEWAY_DECL std::optional<std::uint64_t> newest_common(const std::vector<held_rounds>& all) {
  std::optional<std::uint64_t> best;
  if (all.empty()) return best;
  for (const std::uint64_t round : all[0]) {
    const auto holds = [&](const held_rounds& rounds) {
      return std::find(rounds.begin(), rounds.end(), round) != rounds.end();
    };
    if (round != no_round && (!best || round > *best) && std::all_of(all.begin(), all.end(), holds)) best = round;
  }
  return best;
}

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_IMPL_COMMON_CUT_IPP
