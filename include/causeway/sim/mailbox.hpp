// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_MAILBOX_HPP
#define CAUSEWAY_SIM_MAILBOX_HPP

// Brings the data messages that arrived and the receives that were started together, for all links of one fabric. Same
// rules as between real peers: a message is matched by link, channel, epoch and step, in order; one about another parent or
// longer than the buffer is refused; one that nobody asked for yet is kept; one whose receive was given up is dropped.

#include <causeway/core/error.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/net/operations.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/sim/connection.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::sim::detail {

class mailbox {
 public:
  mailbox(net::detail::operation_table& operations, traffic& counters) : operations_{operations}, counters_{counters} {}

  void add_link(std::string name) { links_.emplace_back().name = std::move(name); }
  void rename(net::peer_index link, std::string name) { links_[link].name = std::move(name); }
  [[nodiscard]] const std::string& name(net::peer_index link) const { return links_[link].name; }

  /// A receive was started: gives it its message, if that came already.
  bool take_kept(net::detail::slot_index slot) {
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

  /// The receive waits for its message.
  void open(net::detail::slot_index slot) {
    const net::detail::pending_operation& op = operations_[slot];
    box& b = links_[op.peer];
    std::erase_if(b.given_up, [&](const net::message_id& old) { return matches(old, op.id); });
    b.open.push_back(slot);
  }

  /// A data message came.
  void arrived(net::peer_index link, parcel_ptr message) {
    box& b = links_[link];
    counters_.bytes_received += message->wire_bytes;
    ++counters_.frames_received;
    if (message->id.epoch < first_epoch_) {
      ++counters_.frames_rejected;
      return;
    }
    const auto open =
        std::find_if(b.open.begin(), b.open.end(), [&](auto slot) { return matches(operations_[slot].id, message->id); });
    if (open != b.open.end()) {
      const net::detail::slot_index slot = *open;
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

  /// A receive is given up before its message came.
  void cancel(net::detail::slot_index slot) {
    box& b = links_[operations_[slot].peer];
    if (std::erase(b.open, slot) == 0) return;
    b.given_up.push_back(operations_[slot].id);
    if (b.given_up.size() > remembered_cancels) b.given_up.pop_front();
  }

  /// The connection is over. Whole messages stay and can be received.
  void fail(net::peer_index link, const error& why) {
    for (const auto slot : std::exchange(links_[link].open, {})) operations_.finish(slot, why);
    links_[link].given_up.clear();
  }

  /// What belongs to epochs before `epoch` is over: open receives end, kept messages go, late ones are refused.
  void cancel_before(std::uint32_t epoch) {
    first_epoch_ = std::max(first_epoch_, epoch);
    for (box& b : links_) {
      std::erase_if(b.open, [&](auto slot) {
        if (operations_[slot].id.epoch >= epoch) return false;
        operations_.finish(slot, causeway::fail(errc::cancelled, b.name, "this exchange was called off"));
        return true;
      });
      std::erase_if(b.kept, [&](const parcel_ptr& m) {
        if (m->id.epoch >= epoch) return false;
        kept_bytes_ -= cost(*m);
        return true;
      });
      std::erase_if(b.given_up, [&](const net::message_id& id) { return id.epoch < epoch; });
    }
  }

  [[nodiscard]] std::uint32_t first_epoch() const noexcept { return first_epoch_; }
  [[nodiscard]] std::size_t kept_bytes() const noexcept { return kept_bytes_; }
  [[nodiscard]] bool wants_anything(net::peer_index link) const { return !links_[link].open.empty(); }

 private:
  static constexpr std::size_t remembered_cancels = 256;
  static constexpr std::size_t message_cost = 256;  // what an empty message counts

  struct box {
    std::string name;
    std::vector<net::detail::slot_index> open;  ///< receives without a message, oldest first
    std::deque<net::message_id> given_up;
    std::deque<parcel_ptr> kept;
  };

  static std::size_t cost(const parcel& m) { return message_cost + m.bytes.size(); }

  static bool matches(const net::message_id& a, const net::message_id& b) {
    return a.channel == b.channel && a.epoch == b.epoch && a.step == b.step;
  }

  void deliver(const parcel& message, net::detail::slot_index slot) {
    net::detail::pending_operation& op = operations_[slot];
    const std::string& from = links_[op.peer].name;
    if (message.aborted) {
      return operations_.finish(slot, causeway::fail(errc::cancelled, from, "it gave up sending this message"));
    }
    if (message.id.parent != op.id.parent) {
      ++counters_.frames_rejected;
      return operations_.finish(slot, causeway::fail(errc::wrong_parent, from,
                                                     "its message (" + net::detail::to_text(message.id) +
                                                         ") is based on another committed state than ours"));
    }
    if (message.bytes.size() > op.length) {
      ++counters_.frames_rejected;
      return operations_.finish(slot,
                                causeway::fail(errc::too_large, from,
                                               "it sent " + std::to_string(message.bytes.size()) + " bytes where at most " +
                                                   std::to_string(op.length) + " are expected"));
    }
    if (!message.bytes.empty()) std::memcpy(op.target, message.bytes.data(), message.bytes.size());
    op.moved = message.bytes.size();
    operations_.finish(slot);
  }

  net::detail::operation_table& operations_;
  traffic& counters_;
  std::deque<box> links_;
  std::uint32_t first_epoch_ = 0;
  std::size_t kept_bytes_ = 0;
};

}  // namespace causeway::inline CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_MAILBOX_HPP
