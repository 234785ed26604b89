// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CORE_METRICS_HPP
#define CAUSEWAY_CORE_METRICS_HPP

// What a run says about itself. The library never prints: it hands records to a sink, which is silent by default.

#include <causeway/config/config.hpp>

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI {

enum class severity : std::uint8_t {
  debug,
  info,
  warning,
  waiting,  ///< a warning: why this peer does not go on
  error
};

/// Where messages for people go. Copyable; may be called from the trainer's thread and from the transport's.
class log_sink {
 public:
  using function = std::function<void(severity, std::string_view)>;

  log_sink() = default;
  explicit log_sink(function f) : function_{std::move(f)} {}

  void operator()(severity level, std::string_view text) const {
    if (function_) function_(level, text);
  }

 private:
  function function_;
};

/// Bytes and frames that crossed the sockets of one transport, headers included.
struct traffic {
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t frames_sent = 0;
  std::uint64_t frames_received = 0;
  std::uint64_t frames_rejected = 0;
};

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_CORE_METRICS_HPP
