// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_IMPL_COMMON_CUT_IPP
#define CAUSEWAY_TRAIN_IMPL_COMMON_CUT_IPP

#include <causeway/train/common_cut.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

// Steps of one round count once: a peer that has saved each of its steps still tells of four rounds.
CAUSEWAY_DECL held_rounds newest_rounds(const std::vector<cut>& cuts) {
  held_rounds newest;
  newest.fill(no_round);
  auto next = newest.begin();
  for (auto c = cuts.rbegin(); c != cuts.rend() && next != newest.end(); ++c) {
    if (std::find(newest.begin(), next, c->round) == next) *next++ = c->round;
  }
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

CAUSEWAY_DECL result<std::optional<cut>> chosen_cut(const std::vector<cut>& cuts, const std::vector<held_rounds>& all) {
  const auto round = newest_common(all);
  const auto of_round = [&](const cut& c) { return c.round == *round; };
  if (round) return std::optional{*std::find_if(cuts.rbegin(), cuts.rend(), of_round)};
  // Somebody was lost before its first: if nobody has exchanged anything yet, all begin anew.
  const auto has_exchanged = [](const held_rounds& rounds) { return rounds.front() != no_round && rounds.front() > 0; };
  if (std::none_of(all.begin(), all.end(), has_exchanged)) return std::optional<cut>{};
  return fail(errc::diverged, "checkpoints",
              "the peers' have no round in common; give every peer its own old ones, or start over without any");
}

}}}  // namespace causeway::CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_TRAIN_IMPL_COMMON_CUT_IPP
