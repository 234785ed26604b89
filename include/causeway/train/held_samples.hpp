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

namespace causeway::inline CAUSEWAY_ABI {

/// Thread safety: none; the trainer's thread, which hands in the newest ledger under the fabric's lock.
class held_samples {
 public:
  explicit held_samples(net::peer_id self) : self_{self} {}

  /// The peer holds the state of another round.
  void begin_round(const membership::ledger& samples) { as_of_ = samples; }
  /// The same, where the others have gone on since: the ledger after `record`, if this one is that of the round before it.
  void follow(const membership::commit_record& record) {
    if (!as_of_.fits(record)) return;
    membership::ledger after = as_of_;
    after.apply(record);
    if (after.hash() == record.ledger) as_of_ = std::move(after);
  }

  /// Whether the first `count` of them are this peer's after a newer commit as well.
  [[nodiscard]] bool still_ours(const membership::ledger& newest, std::uint64_t count) const {
    return membership::still_held(as_of_, newest, self_, count) == count;
  }

  /// At most `count` numbers after the first `skipped`; none where others were given them by `newest`: training on them
  /// would be in vain.
  [[nodiscard]] std::vector<std::uint64_t> draw(const membership::ledger& newest, std::uint64_t skipped,
                                                std::uint64_t count) {
    if (drawn_.size() > skipped) drawn_.erase(drawn_.begin(), drawn_.end() - static_cast<std::ptrdiff_t>(skipped));
    auto numbers = as_of_.take(self_, skipped, count);
    if (!still_ours(newest, skipped + numbers.size())) return {};
    drawn_.insert(drawn_.end(), numbers.begin(), numbers.end());
    return numbers;
  }

  /// What was drawn since the last commit, and perhaps some before it.
  [[nodiscard]] std::span<const std::uint64_t> drawn() const noexcept { return drawn_; }
  /// Whether every sample of the run is in a commit.
  [[nodiscard]] bool complete() const noexcept { return as_of_.complete(); }

 private:
  net::peer_id self_;
  membership::ledger as_of_;
  std::vector<std::uint64_t> drawn_;
};

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_HELD_SAMPLES_HPP
