// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_IMPL_FAULT_APPLY_IPP
#define CAUSEWAY_SIM_IMPL_FAULT_APPLY_IPP

#include <causeway/sim/fault_apply.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

CAUSEWAY_DECL disk_timing timing_after(const fault& f, disk_timing now) {
  if (f.kind == fault_kind::slow_disk) now.bytes_per_s = f.amount > 0 ? f.amount : disk_timing{}.bytes_per_s;
  if (f.kind == fault_kind::slow_sync) now.sync = from_seconds(std::min(f.amount, 1e9));
  return now;
}

CAUSEWAY_DECL void happen_on_disk(const fault& f, disk& on) {
  if (f.kind == fault_kind::slow_disk || f.kind == fault_kind::slow_sync)
    return on.set_timing(timing_after(f, on.timing()));
  const auto nth = static_cast<std::uint64_t>(std::clamp(f.amount, 1.0, 1e9));
  switch (f.kind) {
    case fault_kind::fail_write: return on.set_faults({.fail_write = nth});
    case fault_kind::fail_sync: return on.set_faults({.fail_sync = nth});
    case fault_kind::disk_full:
      return on.set_faults(
          {.capacity = f.amount > 0 ? static_cast<std::uint64_t>(std::min(f.amount, 1e18)) : disk_faults::unlimited});
    default: (void)on.flip_any();
  }
}

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_IMPL_FAULT_APPLY_IPP
