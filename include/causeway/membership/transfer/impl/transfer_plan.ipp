// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_PLAN_IPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_PLAN_IPP

// Bodies of membership/transfer/transfer_plan.hpp.

#include <causeway/membership/transfer/transfer_plan.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

CAUSEWAY_DECL transfer_plan::transfer_plan(const std::vector<std::uint64_t>& local,
                                           const std::vector<std::uint64_t>& wanted)
    : chunks_(wanted.size()) {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (local[i] == wanted[i]) continue;
    chunks_[i] = {.missing = true, .free = true, .askers = 0};
    free_.push_back(i);
  }
  missing_ = free_.size();
}

CAUSEWAY_DECL void transfer_plan::given_up(std::uint64_t chunk) {
  state& c = chunks_[chunk];
  if (c.askers > 0) --c.askers;
  if (c.askers > 0 || c.free || !c.missing) return;
  c.free = true;
  free_.push_front(chunk);
}

CAUSEWAY_DECL void transfer_plan::done(std::uint64_t chunk) noexcept {
  if (chunks_[chunk].missing) --missing_;
  chunks_[chunk].missing = false;
}

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_PLAN_IPP
