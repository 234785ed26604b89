// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_SWARM_PARTS_HPP
#define CAUSEWAY_PARALLEL_SWARM_SWARM_PARTS_HPP

// What a swarm's peer is made of: what its parts share, what it says and hears, who decides, what it computes, and the
// other end of a tied table. swarm_peer.hpp is the peer.

#include <causeway/config/config.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/swarm/swarm_coordinator.hpp>
#include <causeway/parallel/swarm/swarm_message_handler.hpp>
#include <causeway/parallel/swarm/swarm_messenger.hpp>
#include <causeway/parallel/swarm/swarm_options.hpp>
#include <causeway/parallel/swarm/swarm_state.hpp>
#include <causeway/parallel/swarm/swarm_table_sync.hpp>
#include <causeway/parallel/swarm/swarm_work.hpp>
#include <causeway/stage/any_router.hpp>

#include <memory>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Each has a reference to those that it needs.
template <class Whole>
struct basic_swarm_parts {
  basic_swarm_parts(std::shared_ptr<net::fabric> fabric, swarm_options options, stage::routing::any_router router,
                    log_sink log)
      : my{std::move(fabric), std::move(options), std::move(log)}, coordinator{my, messenger, table, std::move(router)} {}
  basic_swarm_parts(const basic_swarm_parts&) = delete;
  basic_swarm_parts& operator=(const basic_swarm_parts&) = delete;
  ~basic_swarm_parts() { my.fabric->attach(nullptr); }

  /// From now on it hears from the network.
  void listen() {
    my.fabric->attach(&handler);
    my.locked([this] { handler.heartbeat(); });
  }

  swarm_state my;
  swarm_messenger messenger{my};
  swarm_table_sync table{my, messenger};
  swarm_coordinator coordinator;
  basic_swarm_message_handler<Whole> handler{my, messenger, table, coordinator};
  swarm_work work{my, coordinator, handler};
};
using swarm_parts = basic_swarm_parts<void>;

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_SWARM_PARTS_HPP
