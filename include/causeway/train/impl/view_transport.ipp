// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_IMPL_VIEW_TRANSPORT_IPP
#define CAUSEWAY_TRAIN_IMPL_VIEW_TRANSPORT_IPP

// Bodies of train/view_transport.hpp.

#include <causeway/train/view_transport.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

CAUSEWAY_DECL void suspicion::add(net::peer_index rank) {
  if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
}

CAUSEWAY_DECL view_transport::view_transport(net::link_transport links, std::shared_ptr<suspicion> suspects)
    : links_{std::move(links)}, suspects_{std::move(suspects)} {}

CAUSEWAY_DECL net::operation view_transport::send(net::peer_index to, const net::message_id& id,
                                                  std::span<const std::byte> bytes) {
  return remember(links_.send(to, id, bytes), to);
}

CAUSEWAY_DECL net::operation view_transport::receive(net::peer_index from, const net::message_id& id,
                                                     std::span<std::byte> buffer) {
  return remember(links_.receive(from, id, buffer), from);
}

CAUSEWAY_DECL result<std::size_t> view_transport::wait(net::operation op, time_point deadline) {
  const auto found = std::find_if(open_.begin(), open_.end(), [&](const auto& o) { return o.first == op; });
  const net::peer_index peer = found == open_.end() ? self() : found->second;
  if (found != open_.end()) {
    *found = open_.back();
    open_.pop_back();
  }
  auto outcome = links_.wait(op, deadline);
  if (!outcome && peer != self()) suspect(peer, outcome.error().code, deadline);
  return outcome;
}

CAUSEWAY_DECL net::operation view_transport::remember(net::operation op, net::peer_index peer) {
  open_.emplace_back(op, peer);
  return op;
}

CAUSEWAY_DECL void view_transport::suspect(net::peer_index peer, errc code, time_point deadline) {
  const bool overdue = code == errc::timeout && deadline != time_point{};
  const bool wrong = code == errc::protocol || code == errc::wrong_parent || code == errc::too_large;
  if (code == errc::peer_lost || overdue || wrong) suspects_->add(peer);
}

}}}  // namespace causeway::CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_TRAIN_IMPL_VIEW_TRANSPORT_IPP
