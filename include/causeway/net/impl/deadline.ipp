// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_DEADLINE_IPP
#define CAUSEWAY_NET_IMPL_DEADLINE_IPP

#include <causeway/net/deadline.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

CAUSEWAY_DECL void arrival_statistics::observe(duration took) noexcept {
  const double t = std::max(0.0, seconds(took));
  if (count_ == 0) {
    mean_ = t;
    deviation_ = t / 2;
  } else {
    const double off = t > mean_ ? t - mean_ : mean_ - t;
    deviation_ += options_.deviation_weight * (off - deviation_);
    mean_ += options_.mean_weight * (t - mean_);
  }
  ++count_;
}

CAUSEWAY_DECL duration arrival_statistics::patience() const noexcept {
  if (count_ == 0) return options_.cap;
  return std::clamp(from_seconds(mean_ + options_.deviations * deviation_), options_.floor, options_.cap);
}

CAUSEWAY_DECL duration arrival_statistics::from_seconds(double s) noexcept {
  constexpr double longest = 1e9;  // about 30 years: keeps the conversion within 64 bits
  return std::chrono::duration_cast<duration>(std::chrono::duration<double>{std::min(s, longest)});
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_DEADLINE_IPP
