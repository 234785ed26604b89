// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_COMMON_CUT_HPP
#define CAUSEWAY_TRAIN_COMMON_CUT_HPP

// Which checkpoints of several peers go together: those of the newest round that all of them hold. Each peer lists its own,
// tells the others the newest rounds, and all choose alike.

#include <causeway/core/result.hpp>
#include <causeway/io/checkpoint.hpp>
#include <causeway/train/checkpoint.hpp>

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI {

/// Stands where a peer holds fewer rounds than it may tell.
inline constexpr std::uint64_t no_round = std::numeric_limits<std::uint64_t>::max();

/// What a peer tells the others: the rounds of its newest checkpoints, the newest first. As bytes it may travel as it is.
using held_rounds = std::array<std::uint64_t, 4>;

/// The checkpoints that are whole, oldest first. `passed_over(error)` is told of each that is not.
template <class Storage, Archiver A, class PassedOver>
[[nodiscard]] result<std::vector<cut>> cuts_in(io::checkpoint_directory<Storage>& checkpoints, A archiver,
                                               PassedOver passed_over) {
  std::vector<cut> cuts;
  CAUSEWAY_ASSIGN(const auto steps, checkpoints.steps());
  for (const std::uint64_t step : steps) {
    const auto file = checkpoints.load(step);
    if (!file) {
      passed_over(file.error());
      continue;
    }
    CAUSEWAY_ASSIGN(const cut where, read_cut(*file, archiver));
    cuts.push_back(where);
  }
  return cuts;
}

/// What to tell the others of checkpoints that are listed oldest first.
CAUSEWAY_DECL held_rounds newest_rounds(const std::vector<cut>& cuts);

/// The newest round that all peers hold; nothing if there is none. `all`: of each peer what it tells.
CAUSEWAY_DECL std::optional<std::uint64_t> newest_common(const std::vector<held_rounds>& all);

}}  // namespace causeway::CAUSEWAY_ABI

#ifndef CAUSEWAY_COMPILED
#include <causeway/train/impl/common_cut.ipp>
#endif

#endif  // CAUSEWAY_TRAIN_COMMON_CUT_HPP
