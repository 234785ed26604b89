// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_STRANGER_LOG_HPP
#define CAUSEWAY_NET_STRANGER_LOG_HPP

// What is written about connections that were refused or dropped before they became a link. Anybody can cause such a line,
// as often as he likes; so only a few are written in a while, the others are counted, and the count is told.

#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// Not thread-safe: its owner locks.
class stranger_log {
 public:
  static constexpr std::size_t lines = 5;  ///< in full, every `period`
  static constexpr std::chrono::seconds period{10};

  CAUSEWAY_DECL explicit stranger_log(log_sink sink);

  /// Writes the line, or counts it.
  CAUSEWAY_DECL void say(time_point now, std::string line);

  /// Tells how many were counted, when the period is over. Call it once in a while.
  CAUSEWAY_DECL void flush(time_point now);

 private:
  log_sink sink_;
  time_point since_;
  std::size_t said_ = 0;
  std::uint64_t counted_ = 0;
  std::string last_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/stranger_log.ipp>
#endif

#endif  // CAUSEWAY_NET_STRANGER_LOG_HPP
