// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_MAILBOX_HPP
#define CAUSEWAY_SIM_MAILBOX_HPP

// The sends and receives that one fabric has under way, and the data messages that came before their receive, for all its
// links. Same rules as between real peers: a message is matched by link, channel, epoch and step, in order; one about
// another parent or longer than the buffer is refused; one that nobody asked for yet is kept; one whose receive was given
// up is dropped. Knows nothing of connections.

#include <causeway/core/error.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/net/operations.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/sim/connection.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::sim::detail {

using net::detail::slot_index;

class mailbox {
 public:
  explicit mailbox(traffic& counters) : counters_{counters} {}

  /// What errors call the peer of a new link.
  void add_link(std::string name) { links_.emplace_back().name = std::move(name); }
  void rename(net::peer_index link, std::string name) { links_[link].name = std::move(name); }
  [[nodiscard]] const std::string& name(net::peer_index link) const { return links_[link].name; }

  // ---- operations ------------------------------------------------------------------------------------------------------

  slot_index start_send(net::peer_index link, const net::message_id& id, std::size_t bytes, time_point now, bool up) {
    const slot_index slot = start(true, link, id, bytes, now);
    if (!operations_[slot].done && !up) lose(slot);
    return slot;
  }

  /// Ends at once if its message is here already; of a lost peer too.
  slot_index start_receive(net::peer_index link, const net::message_id& id, std::span<std::byte> buffer, time_point now,
                           bool up) {
    const slot_index slot = start(false, link, id, buffer.size(), now);
    operations_[slot].target = buffer.data();
    if (operations_[slot].done || take_kept(slot)) return slot;
    if (!up) return lose(slot);
    box& b = links_[link];
    std::erase_if(b.given_up, [&](const net::message_id& old) { return matches(old, id); });
    b.open.push_back(slot);
    return slot;
  }

  [[nodiscard]] net::operation handle(slot_index slot) const { return operations_.handle(slot); }
  [[nodiscard]] slot_index find(net::operation op) const { return operations_.find(op); }
  [[nodiscard]] bool done(slot_index slot) { return operations_[slot].done; }
  [[nodiscard]] bool ended(net::operation op) const { return operations_.done(op); }
  [[nodiscard]] const net::detail::pending_operation& at(slot_index slot) { return operations_[slot]; }
  result<std::size_t> release(slot_index slot) { return operations_.release(slot); }

  /// The last piece of a send is on the wire. False: nobody waits for that.
  bool sent(slot_index slot, std::size_t header_bytes) {
    net::detail::pending_operation& op = operations_[slot];
    if (!op.used || op.done) return false;
    op.moved = op.length;
    counters_.bytes_sent += op.length + header_bytes;
    ++counters_.frames_sent;
    operations_.finish(slot);
    return true;
  }

  /// An operation is given up before it ended. The caller must stop a send on its way.
  result<std::size_t> give_up(slot_index slot, errc code, const char* why) {
    const net::detail::pending_operation& op = operations_[slot];
    box& b = links_[op.peer];
    if (!op.is_send && std::erase(b.open, slot) != 0) {
      b.given_up.push_back(op.id);
      if (b.given_up.size() > remembered_cancels) b.given_up.erase(b.given_up.begin());
    }
    operations_.finish(slot, fail(code, b.name, why));
    return operations_.release(slot);
  }

  // ---- messages --------------------------------------------------------------------------------------------------------

  void arrived(net::peer_index link, parcel_ptr message) {
    box& b = links_[link];
    counters_.bytes_received += message->wire_bytes;
    ++counters_.frames_received;
    if (message->id.epoch < first_epoch_) {
      ++counters_.frames_rejected;
      return;
    }
    const auto open = std::find_if(b.open.begin(), b.open.end(),
                                   [&](slot_index slot) { return matches(operations_[slot].id, message->id); });
    if (open != b.open.end()) {
      const slot_index slot = *open;
      b.open.erase(open);
      return deliver(*message, slot);
    }
    const auto late = std::find_if(b.given_up.begin(), b.given_up.end(),
                                   [&](const net::message_id& id) { return matches(id, message->id); });
    if (late != b.given_up.end()) {
      b.given_up.erase(late);
    } else if (!message->aborted) {
      kept_bytes_ += cost(*message);
      b.kept.push_back(std::move(message));
    }
  }

  // ---- ends ------------------------------------------------------------------------------------------------------------

  /// The connection is over: ends all that is under way on it. Whole messages stay and can be received.
  void fail_link(net::peer_index link, const error& why) {
    links_[link].open.clear();
    links_[link].given_up.clear();
    for_each_unfinished([&](slot_index slot) {
      if (operations_[slot].peer == link) operations_.finish(slot, why);
    });
  }

  /// The network is no longer there: nothing of it may be kept.
  void fail_everything(const error& why) {
    for (box& b : links_) {
      b.open.clear();
      b.kept.clear();
    }
    kept_bytes_ = 0;
    for_each_unfinished([&](slot_index slot) { operations_.finish(slot, why); });
  }

  /// What belongs to epochs before `epoch` is over: operations end, kept messages go, late ones are refused. Calls
  /// `stop_send(slot)` for every send that was under way.
  template <class F>
  void cancel_before(std::uint32_t epoch, F&& stop_send) {
    first_epoch_ = std::max(first_epoch_, epoch);
    for (box& b : links_) {
      std::erase_if(b.open, [&](slot_index slot) { return operations_[slot].id.epoch < epoch; });
      std::erase_if(b.given_up, [&](const net::message_id& id) { return id.epoch < epoch; });
      std::erase_if(b.kept, [&](const parcel_ptr& m) {
        if (m->id.epoch >= epoch) return false;
        kept_bytes_ -= cost(*m);
        return true;
      });
    }
    for_each_unfinished([&](slot_index slot) {
      if (operations_[slot].id.epoch >= epoch) return;
      if (operations_[slot].is_send) stop_send(slot);
      operations_.finish(slot, called_off(operations_[slot].peer));
    });
  }

  // ---- questions -------------------------------------------------------------------------------------------------------

  /// Bytes of messages that came before anybody asked for them.
  [[nodiscard]] std::size_t kept_bytes() const noexcept { return kept_bytes_; }
  [[nodiscard]] bool wants_anything(net::peer_index link) const { return !links_[link].open.empty(); }

  [[nodiscard]] std::string describe(time_point now) const {
    std::string text;
    operations_.for_each_unfinished([&](const net::detail::pending_operation& op) {
      char since[32];
      std::snprintf(since, sizeof since, "%.3f", seconds(now - op.since));
      text += (op.is_send ? "send to " : "receive from ") + name(op.peer) + " (" + net::detail::to_text(op.id) + ", " +
              std::to_string(op.length) + " bytes) since " + since + " s\n";
    });
    return text;
  }

 private:
  static constexpr std::size_t remembered_cancels = 256;
  static constexpr std::size_t message_cost = 256;  // what an empty message counts

  struct box {
    std::string name;
    std::vector<slot_index> open;  ///< receives without a message, oldest first
    std::vector<net::message_id> given_up;
    std::vector<parcel_ptr> kept;
  };

  static std::size_t cost(const parcel& m) { return message_cost + m.bytes.size(); }

  static bool matches(const net::message_id& a, const net::message_id& b) {
    return a.channel == b.channel && a.epoch == b.epoch && a.step == b.step;
  }

  [[nodiscard]] error called_off(net::peer_index link) const {
    return fail(errc::cancelled, links_[link].name, "this exchange was called off");
  }

  slot_index start(bool is_send, net::peer_index link, const net::message_id& id, std::size_t length, time_point now) {
    const bool known = link < links_.size();
    net::detail::pending_operation what;
    what.is_send = is_send;
    what.peer = known ? link : 0;
    what.id = id;
    what.length = length;
    what.since = now;
    const slot_index slot = operations_.start(what);
    if (!known) {
      operations_.finish(slot,
                         fail(errc::invalid_argument, net::detail::peer_name(link), "no such peer, or the peer itself"));
    } else if (id.epoch < first_epoch_) {
      operations_.finish(slot, called_off(link));
    }
    return slot;
  }

  slot_index lose(slot_index slot) {
    operations_.finish(slot, fail(errc::peer_lost, links_[operations_[slot].peer].name, "the connection to it has ended"));
    return slot;
  }

  bool take_kept(slot_index slot) {
    const net::detail::pending_operation& op = operations_[slot];
    box& b = links_[op.peer];
    const auto kept =
        std::find_if(b.kept.begin(), b.kept.end(), [&](const parcel_ptr& m) { return matches(m->id, op.id); });
    if (kept == b.kept.end()) return false;
    const parcel_ptr message = std::move(*kept);
    b.kept.erase(kept);
    kept_bytes_ -= cost(*message);
    deliver(*message, slot);
    return true;
  }

  void deliver(const parcel& message, slot_index slot) {
    net::detail::pending_operation& op = operations_[slot];
    const std::string& from = links_[op.peer].name;
    if (message.aborted) return operations_.finish(slot, fail(errc::cancelled, from, "it gave up sending this message"));
    if (message.id.parent != op.id.parent) {
      ++counters_.frames_rejected;
      return operations_.finish(slot, fail(errc::wrong_parent, from,
                                           "its message (" + net::detail::to_text(message.id) +
                                               ") is based on another committed state than ours"));
    }
    if (message.bytes.size() > op.length) {
      ++counters_.frames_rejected;
      return operations_.finish(slot, fail(errc::too_large, from,
                                           "it sent " + std::to_string(message.bytes.size()) + " bytes where at most " +
                                               std::to_string(op.length) + " are expected"));
    }
    if (!message.bytes.empty()) std::memcpy(op.target, message.bytes.data(), message.bytes.size());
    op.moved = message.bytes.size();
    operations_.finish(slot);
  }

  template <class F>
  void for_each_unfinished(F&& visit) {
    for (slot_index slot = 0; slot < operations_.size(); ++slot) {
      if (operations_[slot].used && !operations_[slot].done) visit(slot);
    }
  }

  traffic& counters_;
  net::detail::operation_table operations_;
  std::deque<box> links_;
  std::uint32_t first_epoch_ = 0;
  std::size_t kept_bytes_ = 0;
};

}  // namespace causeway::inline CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_MAILBOX_HPP
