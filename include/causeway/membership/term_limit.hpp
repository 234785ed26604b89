// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TERM_LIMIT_HPP
#define CAUSEWAY_MEMBERSHIP_TERM_LIMIT_HPP

// How quickly the term of a peer may grow. Terms are numbered through once in the life of a run, so whoever could make them
// jump could end it. Honest terms grow by about one for each election: they pass at once. A larger jump passes as well, but
// only after as many heartbeats as it is too large, so that no honest peer is shut out for ever.

#include <causeway/core/clock.hpp>

#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

/// A regular value. Forgets everything with the process.
class term_limit {
 public:
  explicit term_limit(duration heartbeat) : heartbeat_{heartbeat} {}

  /// Whether a term may become `wanted` now where `known` is the highest that is beyond doubt. If so, the growth is spent.
  CAUSEWAY_DECL bool allow(std::uint32_t known, std::uint32_t wanted, time_point now);

  /// Growth that needs no wait.
  static constexpr std::uint64_t burst = 64;

 private:
  CAUSEWAY_DECL [[nodiscard]] std::uint64_t beats(duration d) const;

  CAUSEWAY_DECL void refill(time_point now);

  static constexpr int longest_between = 16;  // a candidate asks again after 9 at most

  duration heartbeat_;
  std::uint64_t saved_ = burst;
  time_point filled_;
  time_point refused_since_;
  time_point last_refused_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/impl/term_limit.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_TERM_LIMIT_HPP
