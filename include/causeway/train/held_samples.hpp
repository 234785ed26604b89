// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_HELD_SAMPLES_HPP
#define CAUSEWAY_TRAIN_HELD_SAMPLES_HPP

// The samples that a member was given, as of the round whose state it holds, and which of them it handed to its trainer. A
// newer commit may have given them to somebody else.

#include <causeway/membership/ledger.hpp>
#include <causeway/net/fabric.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI {

/// Thread safety: none; the trainer's thread, which hands in the newest ledger under the fabric's lock.
class held_samples {
 public:
  CAUSEWAY_DECL explicit held_samples(net::peer_id self);

  /// The peer holds the state of another round.
  void begin_round(const membership::ledger& samples) { as_of_ = samples; }
  /// The same, where the others have gone on since: the ledger after `record`, if this one is that of the round before it.
  CAUSEWAY_DECL void follow(const membership::commit_record& record);

  /// Whether the first `count` of them are this peer's after a newer commit as well.
  CAUSEWAY_DECL [[nodiscard]] bool still_ours(const membership::ledger& newest, std::uint64_t count) const;

  /// At most `count` numbers after the first `skipped`; none where others were given them by `newest`: training on them
  /// would be in vain.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::uint64_t> draw(const membership::ledger& newest, std::uint64_t skipped,
                                                              std::uint64_t count);

  /// What was drawn since the last commit, and perhaps some before it.
  [[nodiscard]] std::span<const std::uint64_t> drawn() const noexcept { return drawn_; }
  /// Whether every sample of the run is in a commit.
  [[nodiscard]] bool complete() const noexcept { return as_of_.complete(); }
  /// How many are.
  [[nodiscard]] std::uint64_t done() const noexcept { return as_of_.done(); }

 private:
  net::peer_id self_;
  membership::ledger as_of_;
  std::vector<std::uint64_t> drawn_;
};

}}  // namespace causeway::CAUSEWAY_ABI

#ifndef CAUSEWAY_COMPILED
#include <causeway/train/impl/held_samples.ipp>
#endif

#endif  // CAUSEWAY_TRAIN_HELD_SAMPLES_HPP
