// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_EARLY_ORDERS_HPP
#define CAUSEWAY_PARALLEL_SWARM_EARLY_ORDERS_HPP

// A coordinator's orders that come before the turn that they are for: who has missed one asks for it when the turn begins.

#include <causeway/config/config.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/swarm/swarm_messages.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// The newest order for each micro-batch of the next few turns. Regular.
class early_orders {
 public:
  using sent_order = std::pair<net::peer_id, swarm_wire::order>;  ///< with its sender

  /// `micro_batches`: of any turn; orders for others are not kept.
  explicit early_orders(std::size_t micro_batches) : micro_batches_{micro_batches} {}

  CAUSEWAY_DECL void keep(net::peer_id from, const swarm_wire::order& o);
  /// Gives those of this turn up, by micro-batch. Those of turns before it are dropped.
  CAUSEWAY_DECL [[nodiscard]] std::vector<sent_order> take(std::uint64_t turn);
  /// Orders of coordinators of earlier terms count no more.
  CAUSEWAY_DECL void drop_before(std::uint32_t term);

  [[nodiscard]] bool empty() const noexcept { return orders_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return orders_.size(); }

 private:
  static constexpr std::size_t turns = 4;

  std::size_t micro_batches_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, sent_order> orders_;  // by turn and micro-batch
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/swarm/impl/early_orders.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_SWARM_EARLY_ORDERS_HPP
