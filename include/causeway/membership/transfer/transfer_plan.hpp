// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_PLAN_HPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_PLAN_HPP

// Which chunks of a wanted state are still to be had, and which of them nobody is being asked for. A missing chunk is free,
// or somebody is being asked for it, or both for a moment when an overdue request counts again.

#include <causeway/config/config.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

/// Cost of a call: O(1), but for `take`, which looks past the chunks that do not suit.
class transfer_plan {
 public:
  transfer_plan() = default;

  /// All chunks whose hashes differ are missing.
  CAUSEWAY_DECL transfer_plan(const std::vector<std::uint64_t>& local, const std::vector<std::uint64_t>& wanted);

  [[nodiscard]] std::size_t missing() const noexcept { return missing_; }
  [[nodiscard]] bool is_missing(std::uint64_t chunk) const noexcept { return chunks_[chunk].missing; }
  [[nodiscard]] unsigned askers(std::uint64_t chunk) const noexcept { return chunks_[chunk].askers; }

  /// The first free chunk that `suits`; it is no longer free.
  template <class Suits>
  std::optional<std::uint64_t> take(Suits&& suits) {
    for (auto at = free_.begin(); at != free_.end();) {
      const std::uint64_t chunk = *at;
      if (chunks_[chunk].missing && !suits(chunk)) {
        ++at;
        continue;
      }
      at = free_.erase(at);
      chunks_[chunk].free = false;
      if (chunks_[chunk].missing) return chunk;
    }
    return std::nullopt;
  }

  void asked(std::uint64_t chunk) noexcept { ++chunks_[chunk].askers; }

  /// Somebody is no longer waited for; a missing chunk that nobody is waited for becomes free, ahead of all others.
  CAUSEWAY_DECL void given_up(std::uint64_t chunk);

  CAUSEWAY_DECL void done(std::uint64_t chunk) noexcept;

 private:
  struct state {
    bool missing = false;
    bool free = false;
    std::uint16_t askers = 0;
  };

  std::vector<state> chunks_;
  std::deque<std::uint64_t> free_;
  std::size_t missing_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/transfer/impl/transfer_plan.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_PLAN_HPP
