// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_MAILBOX_HPP
#define CAUSEWAY_SIM_MAILBOX_HPP

// The sends and receives that one fabric has under way, and the data messages that came before their receive, for all its
// links. Same rules as between real peers: a message is matched by link, channel, epoch and step, in order; one about
// another parent or longer than the buffer is refused; one that nobody asked for yet is kept; one whose receive was given
// up is dropped. Knows nothing of connections.

#include <causeway/core/error.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/net/epochs.hpp>
#include <causeway/net/operations.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/sim/connection.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

using net::detail::slot_index;

class mailbox {
 public:
  CAUSEWAY_DECL explicit mailbox(traffic& counters);

  /// What errors call the peer of a new link.
  CAUSEWAY_DECL void add_link(std::string name);
  CAUSEWAY_DECL void rename(net::peer_index link, std::string name);
  [[nodiscard]] const std::string& name(net::peer_index link) const { return links_[link].name; }

  // ---- operations ------------------------------------------------------------------------------------------------------

  CAUSEWAY_DECL slot_index start_send(net::peer_index link, const net::message_id& id, std::size_t bytes, time_point now,
                                      bool up);

  /// Ends at once if its message is here already; of a lost peer too.
  CAUSEWAY_DECL slot_index start_receive(net::peer_index link, const net::message_id& id, std::span<std::byte> buffer,
                                         time_point now, bool up);

  [[nodiscard]] net::operation handle(slot_index slot) const { return operations_.handle(slot); }
  [[nodiscard]] slot_index find(net::operation op) const { return operations_.find(op); }
  [[nodiscard]] bool done(slot_index slot) { return operations_[slot].done; }
  [[nodiscard]] bool ended(net::operation op) const { return operations_.done(op); }
  [[nodiscard]] const net::detail::pending_operation& at(slot_index slot) { return operations_[slot]; }
  result<std::size_t> release(slot_index slot) { return operations_.release(slot); }

  /// The last piece of a send is on the wire. False: nobody waits for that.
  CAUSEWAY_DECL bool sent(slot_index slot, std::size_t header_bytes);

  /// An operation is given up before it ended. The caller must stop a send on its way.
  CAUSEWAY_DECL result<std::size_t> give_up(slot_index slot, errc code, const char* why);

  // ---- messages --------------------------------------------------------------------------------------------------------

  CAUSEWAY_DECL void arrived(net::peer_index link, sent_message_ptr message);

  // ---- ends ------------------------------------------------------------------------------------------------------------

  /// The connection is over: ends all that is under way on it. Whole messages stay and can be received.
  CAUSEWAY_DECL void fail_link(net::peer_index link, const error& why);

  /// The network is no longer there: nothing of it may be kept.
  CAUSEWAY_DECL void fail_everything(const error& why);

  /// What belongs to epochs before `epoch`, of its kind, is over: operations end, kept messages go, late ones are refused.
  /// Calls `stop_send(slot)` for every send that was under way.
  template <class F>
  void cancel_before(std::uint32_t epoch, F&& stop_send) {
    past_.end_before(epoch);
    const net::past_epochs over{epoch};
    for (box& b : links_) {
      std::erase_if(b.open, [&](slot_index slot) { return over.contains(operations_[slot].id.epoch); });
      std::erase_if(b.given_up, [&](const net::message_id& id) { return over.contains(id.epoch); });
      std::erase_if(b.kept, [&](const sent_message_ptr& m) {
        if (!over.contains(m->id.epoch)) return false;
        kept_bytes_ -= cost(*m);
        return true;
      });
    }
    for_each_unfinished([&](slot_index slot) {
      if (!over.contains(operations_[slot].id.epoch)) return;
      if (operations_[slot].is_send) stop_send(slot);
      operations_.finish(slot, called_off(operations_[slot].peer));
    });
  }

  // ---- questions -------------------------------------------------------------------------------------------------------

  /// Bytes of messages that came before anybody asked for them.
  [[nodiscard]] std::size_t kept_bytes() const noexcept { return kept_bytes_; }
  [[nodiscard]] bool wants_anything(net::peer_index link) const { return !links_[link].open.empty(); }

  CAUSEWAY_DECL [[nodiscard]] std::string describe(time_point now) const;

 private:
  static constexpr std::size_t remembered_cancels = 256;
  static constexpr std::size_t message_cost = 256;  // what an empty message counts

  struct box {
    std::string name;
    std::vector<slot_index> open;  ///< receives without a message, oldest first
    std::vector<net::message_id> given_up;
    std::vector<sent_message_ptr> kept;
  };

  static std::size_t cost(const sent_message& m) { return message_cost + m.bytes.size(); }

  CAUSEWAY_DECL static bool matches(const net::message_id& a, const net::message_id& b);

  CAUSEWAY_DECL [[nodiscard]] error called_off(net::peer_index link) const;

  CAUSEWAY_DECL slot_index start(bool is_send, net::peer_index link, const net::message_id& id, std::size_t length,
                                 time_point now);

  CAUSEWAY_DECL slot_index lose(slot_index slot);

  CAUSEWAY_DECL bool take_kept(slot_index slot);

  CAUSEWAY_DECL void deliver(const sent_message& message, slot_index slot);

  template <class F>
  void for_each_unfinished(F&& visit) {
    for (slot_index slot = 0; slot < operations_.size(); ++slot) {
      if (operations_[slot].used && !operations_[slot].done) visit(slot);
    }
  }

  traffic& counters_;
  net::detail::operation_table operations_;
  std::deque<box> links_;
  net::past_epochs past_;
  std::size_t kept_bytes_ = 0;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/sim/impl/mailbox.ipp>
#endif

#endif  // CAUSEWAY_SIM_MAILBOX_HPP
