// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_IMPL_CONNECTION_IPP
#define CAUSEWAY_SIM_IMPL_CONNECTION_IPP

#include <causeway/sim/connection.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

CAUSEWAY_DECL sent_message_ptr message_pool::make(content what, lane way) {
  if (free_.empty()) free_.push_back(std::make_unique<sent_message>());
  sent_message_ptr p{free_.back().release(), message_return{this}};
  free_.pop_back();
  held_ -= p->bytes.capacity();
  p->what = what;
  p->way = way;
  return p;
}

CAUSEWAY_DECL void message_pool::take_back(std::unique_ptr<sent_message> p) {
  std::vector<std::byte> room = std::move(p->bytes);
  if (free_.size() >= most_messages || held_ + room.capacity() > most_bytes) return;
  room.clear();
  held_ += room.capacity();
  *p = sent_message{};
  p->bytes = std::move(room);
  free_.push_back(std::move(p));
}

CAUSEWAY_DECL void message_return::operator()(sent_message* p) const {
  std::unique_ptr<sent_message> owned{p};
  if (pool != nullptr) pool->take_back(std::move(owned));
}

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_IMPL_CONNECTION_IPP
