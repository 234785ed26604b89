// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_DEADLINE_HPP
#define CAUSEWAY_NET_DEADLINE_HPP

// How long to wait, derived from how long it took before. Smoothed mean and mean deviation of observed times as TCP keeps
// them for its retransmission timer (Jacobson and Karels 1988; RFC 6298, equations 2.2 and 2.3), with a floor and a cap.

#include <causeway/core/clock.hpp>

#include <algorithm>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

struct arrival_options {
  duration floor = std::chrono::seconds{1};  ///< never wait less
  duration cap = std::chrono::minutes{10};   ///< never wait longer; also the answer before the first observation
  double deviations = 4.0;                   ///< RFC 6298's K
  double mean_weight = 1.0 / 8.0;            ///< RFC 6298's alpha: share of a new observation in the mean
  double deviation_weight = 1.0 / 4.0;       ///< RFC 6298's beta
};

/// Estimates by when the next arrival is overdue. A few arithmetic operations per observation; serializable.
class arrival_statistics {
 public:
  arrival_statistics() = default;
  explicit arrival_statistics(const arrival_options& options) : options_{options} {}

  /// One more arrival took `took`. Negative times count as 0.
  CAUSEWAY_DECL void observe(duration took) noexcept;

  /// A wait of `waited` ended without an arrival: the next one may take twice as long (RFC 6298, rule 5.5), up to the cap.
  void overdue(duration waited) noexcept { observe(std::min(waited * 2, options_.cap)); }

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] duration mean() const noexcept { return from_seconds(mean_); }
  [[nodiscard]] duration deviation() const noexcept { return from_seconds(deviation_); }

  /// mean + K deviations, within floor and cap.
  CAUSEWAY_DECL [[nodiscard]] duration patience() const noexcept;

  /// The deadline of something that starts at `now`.
  [[nodiscard]] time_point deadline(time_point now) const noexcept { return now + patience(); }

  void serialize(auto& ar) { ar(mean_, deviation_, count_); }

 private:
  CAUSEWAY_DECL static duration from_seconds(double s) noexcept;

  arrival_options options_;
  double mean_ = 0;
  double deviation_ = 0;
  std::uint64_t count_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::net

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/deadline.ipp>
#endif

#endif  // CAUSEWAY_NET_DEADLINE_HPP
