// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_IMPL_EARLY_ORDERS_IPP
#define CAUSEWAY_PARALLEL_SWARM_IMPL_EARLY_ORDERS_IPP

#include <causeway/parallel/swarm/early_orders.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL void early_orders::keep(net::peer_id from, const swarm_wire::order& o) {
  if (o.micro_batch >= micro_batches_) return;
  const auto known = orders_.find({o.turn, o.micro_batch});
  if (known == orders_.end()) {
    if (orders_.size() < turns * micro_batches_) orders_.emplace(std::pair{o.turn, o.micro_batch}, sent_order{from, o});
  } else if (known->second.second.version < o.version) {
    known->second = {from, o};
  }
}

CAUSEWAY_DECL std::vector<early_orders::sent_order> early_orders::take(std::uint64_t turn) {
  std::vector<sent_order> taken;
  while (!orders_.empty() && orders_.begin()->first.first <= turn) {
    auto next = orders_.extract(orders_.begin());
    if (next.key().first == turn) taken.push_back(std::move(next.mapped()));
  }
  return taken;
}

CAUSEWAY_DECL void early_orders::drop_before(std::uint32_t term) {
  std::erase_if(orders_, [&](const auto& o) { return o.second.second.version >> 32U < term; });
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_IMPL_EARLY_ORDERS_IPP
