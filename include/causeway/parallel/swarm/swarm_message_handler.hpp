// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_SWARM_MESSAGE_HANDLER_HPP
#define CAUSEWAY_PARALLEL_SWARM_SWARM_MESSAGE_HANDLER_HPP

// What happens on a swarm peer's network, and which message goes to which of its parts.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/swarm/swarm_coordinator.hpp>
#include <causeway/parallel/swarm/swarm_messages.hpp>
#include <causeway/parallel/swarm/swarm_messenger.hpp>
#include <causeway/parallel/swarm/swarm_state.hpp>
#include <causeway/parallel/swarm/swarm_table_sync.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

template <class Whole>
class basic_swarm_message_handler;
using swarm_message_handler = basic_swarm_message_handler<void>;

/// To be used with the fabric's lock held, as events come.
template <class Whole>
class basic_swarm_message_handler final : public net::fabric_events {
 public:
  basic_swarm_message_handler(swarm_state& my, swarm_messenger& messenger, swarm_table_sync& table,
                              swarm_coordinator& coordinator)
      : my_{my}, messenger_{messenger}, table_{table}, coordinator_{coordinator} {}

  void on_up(net::peer_index link, net::peer_id id, const std::string& address) override;

  void on_down(net::peer_index link, const error& why) override;

  void on_unreachable(const std::string&, const error&) override {}

  void on_control(net::peer_index link, std::span<const std::byte> bytes) override;

  void on_wake() override;

  void heartbeat();

  /// Announced tensors of this turn whose data can be received now: those from whom the orders name. Others wait for their
  /// order or their turn, so nobody else makes this peer set memory aside.
  [[nodiscard]] std::vector<std::pair<net::peer_index, swarm_wire::tensor_announcement>> take_announcements();
  [[nodiscard]] std::size_t waiting_announcements() const noexcept { return announcements_.size(); }

 private:
  void send_away(net::peer_index link, net::peer_id who, const std::string& why);

  /// Through the model of modules, which whoever serves, or has begun, knows.
  [[nodiscard]] bool differs_in_paths(const swarm_wire::status& s) const;

  void take(net::peer_index link, net::peer_id from, const swarm_wire::status& s);
  void take(net::peer_index, net::peer_id from, const swarm_wire::claim& c);
  /// What only a coordinator listens to.
  template <class M>
  void take(net::peer_index, net::peer_id from, const M& m) {
    if (my_.coordinates) coordinator_.heard_by_coordinator(from, m);
  }
  void take(net::peer_index, net::peer_id from, const swarm_wire::order& o) { coordinator_.accept(from, o); }
  /// A neighbour announces two tensors a micro-batch and turn, and what it sends again. Who goes on and on is sent away.
  void take(net::peer_index link, net::peer_id from, const swarm_wire::tensor_announcement& p);
  void take(net::peer_index, net::peer_id from, const swarm_wire::probe& p) {
    messenger_.post(from, swarm_wire::echo{p.mark});
  }
  void take(net::peer_index, net::peer_id from, const swarm_wire::echo& e);
  void take(net::peer_index, net::peer_id from, const swarm_wire::verdict& v);
  void take(net::peer_index, net::peer_id, const swarm_wire::addresses& a) { messenger_.learn(a); }
  void take(net::peer_index, net::peer_id from, const swarm_wire::table_request& r) { table_.heard(from, r); }
  void take(net::peer_index, net::peer_id from, const swarm_wire::table_piece& p) { table_.heard(from, p); }
  void take(net::peer_index, net::peer_id from, const swarm_wire::move_request& m);

  static constexpr std::size_t announced_each = 8, announced_in_all = 16;  // the latter times the former

  swarm_state& my_;
  swarm_messenger& messenger_;
  swarm_table_sync& table_;
  swarm_coordinator& coordinator_;
  std::vector<std::pair<net::peer_index, swarm_wire::tensor_announcement>>
      announcements_;                                 // whose data is not expected yet
  std::map<net::peer_index, std::size_t> announced_;  // in this turn
  std::uint64_t announced_in_ = 0;                    // that turn
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/swarm/impl/swarm_message_handler.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_SWARM_SWARM_MESSAGE_HANDLER_HPP
