// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TERM_LIMIT_HPP
#define CAUSEWAY_MEMBERSHIP_TERM_LIMIT_HPP

// How quickly the term of a peer may grow. Terms are numbered through once in the life of a run, so whoever could make them
// jump could end it. Honest terms grow by about one for each election: they pass at once. A larger jump passes as well, but
// only after as many heartbeats as it is too large, so that no honest peer is shut out for ever.

#include <causeway/core/clock.hpp>

#include <algorithm>
#include <cstdint>

namespace causeway::inline CAUSEWAY_ABI::membership::detail {

/// A regular value. Forgets everything with the process.
class term_limit {
 public:
  explicit term_limit(duration heartbeat) : heartbeat_{heartbeat} {}

  /// Whether a term may become `wanted` now where `known` is the highest that is beyond doubt. If so, the growth is spent.
  bool allow(std::uint32_t known, std::uint32_t wanted, time_point now) {
    if (wanted <= known) return true;
    refill(now);
    const std::uint64_t growth = wanted - known;
    if (growth > saved_ && now - last_refused_ > longest_between * heartbeat_) refused_since_ = now;
    if (growth > saved_ + beats(now - refused_since_)) {
      last_refused_ = now;
      return false;
    }
    saved_ -= std::min(saved_, growth);
    refused_since_ = last_refused_ = now;
    return true;
  }

  /// Growth that needs no wait.
  static constexpr std::uint64_t burst = 64;

 private:
  [[nodiscard]] std::uint64_t beats(duration d) const {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(d / std::max(heartbeat_, duration{1}), 0));
  }

  void refill(time_point now) {
    const std::uint64_t more = beats(now - filled_);
    if (more == 0) return;
    saved_ = std::min(burst, saved_ + more);
    filled_ = now;
  }

  static constexpr int longest_between = 16;  // a candidate asks again after 9 at most

  duration heartbeat_;
  std::uint64_t saved_ = burst;
  time_point filled_;
  time_point refused_since_;
  time_point last_refused_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_TERM_LIMIT_HPP
