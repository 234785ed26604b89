// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_TRANSPORT_SITE_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_TRANSPORT_SITE_IPP

#include <causeway/collective/transport_site.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL transport_site::transport_site(net::any_transport& over, std::vector<net::peer_index> members,
                                             const net::message_id& id, const collective_options& options)
    : group_{over, std::move(members)}, id_{id}, options_{options} {}

CAUSEWAY_INLINE result<void> transport_site::mean(std::span<float> data) {
  return all_reduce_mean(group_, of_kind(0), data, options_);
}

CAUSEWAY_INLINE result<void> transport_site::sum(std::span<float> data) {
  return all_reduce_sum(group_, of_kind(0), data, options_);
}

CAUSEWAY_INLINE result<void> transport_site::broadcast(std::uint32_t from, std::span<float> data) {
  return collective::broadcast(group_, of_kind(1), from, data, options_);
}

CAUSEWAY_INLINE result<bool> transport_site::all_of(bool mine) {
  const std::byte own{mine};
  std::vector<std::byte> said(group_.size());
  CAUSEWAY_TRY(all_gather(group_, of_kind(2), std::span{&own, 1}, std::span{said}, options_));
  for (net::peer_index r = 0; r < group_.size(); ++r) {
    if (said[r] > std::byte{1}) return fail(errc::corrupt, peer_name(group_.peer_of(r)), "its word is neither yes nor no");
  }
  return std::all_of(said.begin(), said.end(), [](std::byte b) { return b == std::byte{1}; });
}

CAUSEWAY_DECL net::message_id transport_site::of_kind(std::uint32_t kind) const {
  net::message_id id = id_;
  id.channel += 4 * kind;
  return id;
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_TRANSPORT_SITE_IPP
