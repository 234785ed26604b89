// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_IMPL_FIXED_GROUP_IPP
#define CAUSEWAY_TRAIN_IMPL_FIXED_GROUP_IPP

#include <causeway/train/fixed_group.hpp>

#include <causeway/collective/group_view.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

CAUSEWAY_DECL fixed_group::fixed_group(net::any_transport world, time_point deadline)
    : world_{std::move(world)}, deadline_{deadline} {}

CAUSEWAY_DECL void fixed_group::form(std::vector<net::peer_index> members) {
  members_.emplace(collective::group_view{world_, std::move(members)});
}

CAUSEWAY_INLINE round_entry fixed_group::view() const {
  const double share = 1.0 / expected();
  return {.deadline = deadline_, .share = share, .shares = std::vector<double>(expected(), share)};
}

CAUSEWAY_INLINE void fixed_group::made(const std::function<std::uint64_t(std::uint64_t)>& hash) {
  ++round_;
  hash_ = hash(round_);
  parent_ = mix(parent_, hash_, round_);
}

CAUSEWAY_DECL error fixed_group::no_membership() {
  return fail(errc::invalid_argument, "fault policy",
              "it needs a membership, but the environment has none; set environment::group, or use fault::fail_stop");
}

}}}  // namespace causeway::CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_TRAIN_IMPL_FIXED_GROUP_IPP
