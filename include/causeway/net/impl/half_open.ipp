// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_HALF_OPEN_IPP
#define CAUSEWAY_NET_IMPL_HALF_OPEN_IPP

#include <causeway/net/half_open.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL stranger_log::stranger_log(log_sink sink) : sink_{std::move(sink)} {}

CAUSEWAY_DECL void stranger_log::say(time_point now, std::string line) {
  flush(now);
  if (said_ == 0) since_ = now;
  if (said_ < lines) {
    ++said_;
    return sink_(severity::warning, line);
  }
  ++counted_;
  last_ = std::move(line);
}

CAUSEWAY_DECL void stranger_log::flush(time_point now) {
  if (said_ == 0 || now - since_ < duration{period}) return;
  if (counted_ != 0) {
    sink_(severity::warning, "turned away " + std::to_string(counted_) + " more connections in " +
                                 std::to_string(period.count()) + " s; the last: " + last_);
  }
  said_ = 0;
  counted_ = 0;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_HALF_OPEN_IPP
