// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_IMPL_MAILBOX_IPP
#define CAUSEWAY_SIM_IMPL_MAILBOX_IPP

#include <causeway/sim/mailbox.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

CAUSEWAY_DECL mailbox::mailbox(traffic& counters) : counters_{counters} {}

CAUSEWAY_DECL void mailbox::add_link(std::string name) { links_.emplace_back().name = std::move(name); }

CAUSEWAY_DECL void mailbox::rename(net::peer_index link, std::string name) { links_[link].name = std::move(name); }

CAUSEWAY_DECL slot_index mailbox::start_send(net::peer_index link, const net::message_id& id, std::size_t bytes,
                                             time_point now, bool up) {
  const slot_index slot = start(true, link, id, bytes, now);
  if (!operations_[slot].done && !up) lose(slot);
  return slot;
}

CAUSEWAY_DECL slot_index mailbox::start_receive(net::peer_index link, const net::message_id& id,
                                                std::span<std::byte> buffer, time_point now, bool up) {
  const slot_index slot = start(false, link, id, buffer.size(), now);
  operations_[slot].target = buffer.data();
  if (operations_[slot].done || take_kept(slot)) return slot;
  if (!up) return lose(slot);
  box& b = links_[link];
  std::erase_if(b.given_up, [&](const net::message_id& old) { return matches(old, id); });
  b.open.push_back(slot);
  return slot;
}

CAUSEWAY_DECL bool mailbox::sent(slot_index slot, std::size_t header_bytes) {
  net::detail::pending_operation& op = operations_[slot];
  if (!op.used || op.done) return false;
  op.moved = op.length;
  counters_.bytes_sent += op.length + header_bytes;
  ++counters_.frames_sent;
  operations_.finish(slot);
  return true;
}

CAUSEWAY_DECL result<std::size_t> mailbox::give_up(slot_index slot, errc code, const char* why) {
  const net::detail::pending_operation& op = operations_[slot];
  box& b = links_[op.peer];
  if (!op.is_send && std::erase(b.open, slot) != 0) {
    b.given_up.push_back(op.id);
    if (b.given_up.size() > remembered_cancels) b.given_up.erase(b.given_up.begin());
  }
  operations_.finish(slot, fail(code, b.name, why));
  return operations_.release(slot);
}

CAUSEWAY_DECL void mailbox::arrived(net::peer_index link, sent_message_ptr message) {
  box& b = links_[link];
  counters_.bytes_received += message->wire_bytes;
  ++counters_.frames_received;
  if (past_.contains(message->id.epoch)) {
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

CAUSEWAY_DECL void mailbox::fail_link(net::peer_index link, const error& why) {
  links_[link].open.clear();
  links_[link].given_up.clear();
  for_each_unfinished([&](slot_index slot) {
    if (operations_[slot].peer == link) operations_.finish(slot, why);
  });
}

CAUSEWAY_DECL void mailbox::fail_everything(const error& why) {
  for (box& b : links_) {
    b.open.clear();
    b.kept.clear();
  }
  kept_bytes_ = 0;
  for_each_unfinished([&](slot_index slot) { operations_.finish(slot, why); });
}

CAUSEWAY_DECL std::string mailbox::describe(time_point now) const {
  std::string text;
  operations_.for_each_unfinished([&](const net::detail::pending_operation& op) {
    char since[32];
    std::snprintf(since, sizeof since, "%.3f", seconds(now - op.since));
    text += (op.is_send ? "send to " : "receive from ") + name(op.peer) + " (" + net::detail::to_text(op.id) + ", " +
            std::to_string(op.length) + " bytes) since " + since + " s\n";
  });
  return text;
}

CAUSEWAY_DECL bool mailbox::matches(const net::message_id& a, const net::message_id& b) {
  return a.channel == b.channel && a.epoch == b.epoch && a.step == b.step;
}

CAUSEWAY_DECL error mailbox::called_off(net::peer_index link) const {
  return fail(errc::cancelled, links_[link].name, "this exchange was called off");
}

CAUSEWAY_DECL slot_index mailbox::start(bool is_send, net::peer_index link, const net::message_id& id, std::size_t length,
                                        time_point now) {
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
  } else if (past_.contains(id.epoch)) {
    operations_.finish(slot, called_off(link));
  }
  return slot;
}

CAUSEWAY_DECL slot_index mailbox::lose(slot_index slot) {
  operations_.finish(slot, fail(errc::peer_lost, links_[operations_[slot].peer].name, "the connection to it has ended"));
  return slot;
}

CAUSEWAY_DECL bool mailbox::take_kept(slot_index slot) {
  const net::detail::pending_operation& op = operations_[slot];
  box& b = links_[op.peer];
  const auto kept =
      std::find_if(b.kept.begin(), b.kept.end(), [&](const sent_message_ptr& m) { return matches(m->id, op.id); });
  if (kept == b.kept.end()) return false;
  const sent_message_ptr message = std::move(*kept);
  b.kept.erase(kept);
  kept_bytes_ -= cost(*message);
  deliver(*message, slot);
  return true;
}

CAUSEWAY_DECL void mailbox::deliver(const sent_message& message, slot_index slot) {
  net::detail::pending_operation& op = operations_[slot];
  const std::string& from = links_[op.peer].name;
  if (message.aborted) return operations_.finish(slot, fail(errc::cancelled, from, "it gave up sending this message"));
  if (message.id.parent != op.id.parent) {
    ++counters_.frames_rejected;
    return operations_.finish(
        slot, fail(errc::wrong_parent, from,
                   "its message (" + net::detail::to_text(message.id) + ") is based on another committed state than ours"));
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

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_IMPL_MAILBOX_IPP
