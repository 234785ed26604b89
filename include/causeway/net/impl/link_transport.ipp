// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_LINK_TRANSPORT_IPP
#define CAUSEWAY_NET_IMPL_LINK_TRANSPORT_IPP

#include <causeway/net/link_transport.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

CAUSEWAY_DECL link_transport::link_transport(std::shared_ptr<fabric> over, std::vector<peer_index> link_of_rank,
                                             peer_index self_rank, std::uint32_t epoch)
    : fabric_{std::move(over)}, links_{std::move(link_of_rank)}, self_{self_rank}, epoch_{epoch} {
  CAUSEWAY_EXPECT(fabric_ != nullptr);
  CAUSEWAY_EXPECT(self_ < links_.size());
}

CAUSEWAY_DECL operation link_transport::send(peer_index to, const message_id& id, std::span<const std::byte> bytes) {
  return is_other(to) ? fabric_->send(links_[to], of_this_view(id), bytes) : no_operation;
}

CAUSEWAY_DECL operation link_transport::receive(peer_index from, const message_id& id, std::span<std::byte> buffer) {
  return is_other(from) ? fabric_->receive(links_[from], of_this_view(id), buffer) : no_operation;
}

CAUSEWAY_DECL result<std::size_t> link_transport::wait(operation op, time_point deadline) {
  if (op == no_operation) return fail(errc::invalid_argument, "view", "there is no such other rank");
  return fabric_->wait(op, deadline);
}

CAUSEWAY_DECL bool link_transport::wait_any(std::span<const operation> ops, time_point deadline) {
  const auto ended = [&] { return std::any_of(ops.begin(), ops.end(), [&](operation op) { return done(op); }); };
  return fabric_->block(ended, deadline).value_or(false);
}

CAUSEWAY_DECL message_id link_transport::of_this_view(message_id id) const noexcept {
  id.epoch = epoch_;
  return id;
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_LINK_TRANSPORT_IPP
