// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_CUTS_HPP
#define CAUSEWAY_EXAMPLES_CUTS_HPP

// Which checkpoints of several peers go together.

#include <causeway/core/result.hpp>
#include <causeway/io/archive.hpp>
#include <causeway/io/checkpoint.hpp>
#include <causeway/train/checkpoint.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <vector>

namespace app {

constexpr std::uint64_t no_round = std::numeric_limits<std::uint64_t>::max();

/// What a peer tells the others: the rounds of its newest checkpoints, the newest first.
using held_rounds = std::array<std::uint64_t, 4>;

/// The checkpoints that are whole, oldest first.
template <class Storage>
causeway::result<std::vector<causeway::cut>> cuts_in(causeway::io::checkpoint_directory<Storage>& checkpoints) {
  std::vector<causeway::cut> cuts;
  CAUSEWAY_ASSIGN(const auto steps, checkpoints.steps());
  for (const std::uint64_t step : steps) {
    const auto file = checkpoints.load(step);
    if (!file) {
      std::fprintf(stderr, "passing over a checkpoint: %s\n", file.error().text().c_str());
      continue;
    }
    CAUSEWAY_ASSIGN(const causeway::cut where, causeway::read_cut(*file, causeway::io::archiver{}));
    cuts.push_back(where);
  }
  return cuts;
}

inline held_rounds newest_rounds(const std::vector<causeway::cut>& cuts) {
  held_rounds newest;
  newest.fill(no_round);
  for (std::size_t i = 0; i < std::min(cuts.size(), newest.size()); ++i) newest[i] = cuts[cuts.size() - 1 - i].round;
  return newest;
}

/// The newest round that all peers hold.
inline std::optional<std::uint64_t> newest_common(const std::vector<held_rounds>& all) {
  std::optional<std::uint64_t> best;
  for (const std::uint64_t round : all[0]) {
    const auto holds = [&](const auto& rounds) { return std::find(rounds.begin(), rounds.end(), round) != rounds.end(); };
    if (round != no_round && (!best || round > *best) && std::all_of(all.begin(), all.end(), holds)) best = round;
  }
  return best;
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_CUTS_HPP
