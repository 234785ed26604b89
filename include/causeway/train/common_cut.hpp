// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_COMMON_CUT_HPP
#define CAUSEWAY_TRAIN_COMMON_CUT_HPP

// Which checkpoints of several peers go together: those of the newest round that all of them hold. Each peer lists its own,
// tells the others the newest rounds, and all choose alike.

#include <causeway/collective/channels.hpp>
#include <causeway/collective/gather.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/io/checkpoint.hpp>
#include <causeway/train/checkpoint.hpp>

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI {

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

namespace detail {

/// What a peer tells the others: the rounds of its newest checkpoints, the newest first; `no_round` where it holds fewer.
using held_rounds = std::array<std::uint64_t, 4>;
inline constexpr std::uint64_t no_round = std::numeric_limits<std::uint64_t>::max();

/// What to tell the others of checkpoints that are listed oldest first.
CAUSEWAY_DECL held_rounds newest_rounds(const std::vector<cut>& cuts);
/// The newest round that all peers hold; nothing if there is none. `all`: of each peer what it tells.
CAUSEWAY_DECL std::optional<std::uint64_t> newest_common(const std::vector<held_rounds>& all);
/// Of `cuts`, as common_cut has it.
CAUSEWAY_DECL result<std::optional<cut>> chosen_cut(const std::vector<cut>& cuts, const std::vector<held_rounds>& all);

}  // namespace detail

/// This peer's newest checkpoint of the newest round that all peers hold; nothing where somebody holds none, and nobody any
/// after an exchange: all begin anew. `cuts`: its own, oldest first. Call it on all peers, before start(). 32 bytes from
/// and to everybody. errc::diverged where else there is no round that all hold.
template <net::Transport T>
[[nodiscard]] result<std::optional<cut>> common_cut(T& transport, const std::vector<cut>& cuts,
                                                    const collective::collective_options& options = {}) {
  const detail::held_rounds mine = detail::newest_rounds(cuts);
  std::vector<detail::held_rounds> all(transport.size(), mine);
  CAUSEWAY_TRY(collective::all_gather(transport, {.channel = collective::channels::state + 1},
                                      std::as_bytes(std::span{mine}), std::as_writable_bytes(std::span{all}), options));
  return detail::chosen_cut(cuts, all);
}

/// Takes a trainer of a fixed set of peers to its checkpoint of the newest round that all peers hold, and throws newer ones
/// away; gives where it is. Nothing happens where all begin anew, as above. Call it on all peers, before start(). Save each
/// peer once before its first step, so that all hold a round from the beginning, and keep three checkpoints: those who
/// survive may be a round ahead of who was lost, and save once more when they stop.
template <class Trainer, class Storage, Archiver A, class PassedOver>
result<std::optional<cut>> resume_together(Trainer& trainer, io::checkpoint_directory<Storage>& checkpoints, A archiver,
                                           PassedOver passed_over) {
  CAUSEWAY_ASSIGN(const auto cuts, cuts_in(checkpoints, archiver, passed_over));
  CAUSEWAY_ASSIGN(const auto chosen, common_cut(trainer.context().world(), cuts));
  if (!chosen) return chosen;
  CAUSEWAY_ASSIGN(const auto file, checkpoints.load(chosen->step));
  CAUSEWAY_TRY(restore_state(trainer, file, archiver));
  CAUSEWAY_TRY(checkpoints.discard_after(chosen->step));
  return chosen;
}

}}  // namespace causeway::CAUSEWAY_ABI

#ifndef CAUSEWAY_COMPILED
#include <causeway/train/impl/common_cut.ipp>
#endif

#endif  // CAUSEWAY_TRAIN_COMMON_CUT_HPP
