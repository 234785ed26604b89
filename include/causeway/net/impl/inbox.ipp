// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_INBOX_IPP
#define CAUSEWAY_NET_IMPL_INBOX_IPP

#include <causeway/net/inbox.hpp>

#include <algorithm>
#include <cstring>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL inbox::inbox(operation_table& operations, peer_index peer, const inbox_limits& limits)
    : inbox{operations, peer_name(peer), limits} {}

CAUSEWAY_DECL inbox::inbox(operation_table& operations, std::string name, const inbox_limits& limits)
    : operations_{&operations}, name_{std::move(name)}, limits_{limits} {}

CAUSEWAY_DECL void inbox::retire_if_complete(message_map::iterator at) { retire_if_complete(at, frontier_); }

CAUSEWAY_DECL result<chunk_target> inbox::begin_chunk(const frame_header& h) {
  CAUSEWAY_ASSIGN(message* const m, announce(h));
  CAUSEWAY_TRY(check_chunk(*m, h));
  chunk_target spot{chunk_target::kind::discard, h.sequence, h.chunk_offset, h.chunk_length};
  if (m->slot != no_slot) {
    spot.how = chunk_target::kind::user_buffer;
  } else if (!m->discard) {
    CAUSEWAY_TRY(keep_chunk(*m, h, spot));
  }
  if (spot.how == chunk_target::kind::parked) return spot;
  m->mark_seen(h.chunk_offset / limits_.chunk);
  m->coming += h.chunk_length;
  return spot;
}

CAUSEWAY_DECL std::byte* inbox::place(const chunk_target& spot) const {
  const auto found = messages_.find(spot.sequence);
  if (spot.how == chunk_target::kind::discard || found == messages_.end()) return nullptr;
  const message& m = found->second;
  if (spot.how == chunk_target::kind::user_buffer) {
    return m.slot == no_slot ? nullptr : (*operations_)[m.slot].target + spot.offset;
  }
  const auto kept =
      std::find_if(m.kept.begin(), m.kept.end(), [&](const kept_chunk& c) { return c.offset == spot.offset; });
  return kept == m.kept.end() ? nullptr : kept->bytes.get();
}

CAUSEWAY_DECL void inbox::end_chunk(const chunk_target& spot) {
  const auto found = messages_.find(spot.sequence);
  CAUSEWAY_EXPECT(found != messages_.end());
  message& m = found->second;
  m.coming -= spot.length;
  m.received += spot.length;
  if (spot.how == chunk_target::kind::kept) mark_filled(m, spot.offset);
  if (m.slot != no_slot) (*operations_)[m.slot].moved = m.received;
  retire_if_complete(found);
}

CAUSEWAY_DECL result<void> inbox::abort_message(const frame_header& h) {
  CAUSEWAY_ASSIGN(message* const m, announce(h, true));
  if (h.chunk_offset < m->received + m->coming) return broken("it takes back bytes that it already sent");
  if (m->slot != no_slot) {
    operations_->finish(m->slot, fail(errc::cancelled, name_, "it gave up sending this message"));
  }
  discard(*m);
  m->expected = h.chunk_offset;
  retire_if_complete(messages_.find(h.sequence));
  return {};
}

CAUSEWAY_DECL void inbox::post(slot_index slot) {
  const message_id id = (*operations_)[slot].id;
  for (auto at = messages_.begin(); at != messages_.end() && at->first < frontier_; ++at) {
    message& m = at->second;
    if (m.slot != no_slot || m.discard || !same_conversation(m.id, id)) continue;
    deliver_to(m, slot);
    retire_if_complete(at);
    return;
  }
  std::erase_if(given_up_, [&](const message_id& old) { return same_conversation(old, id); });
  open_.push_back(slot);
}

CAUSEWAY_DECL void inbox::cancel(slot_index slot) {
  if (const auto at = std::find(open_.begin(), open_.end(), slot); at != open_.end()) {
    open_.erase(at);
    given_up_.push_back((*operations_)[slot].id);
    if (given_up_.size() > remembered_cancels) given_up_.pop_front();
    return;
  }
  for (auto& [sequence, m] : messages_) {
    if (m.slot == slot) return discard(m);
  }
}

CAUSEWAY_DECL void inbox::fail_all(const error& why) {
  for (const slot_index slot : open_) operations_->finish(slot, why);
  open_.clear();
  for (auto at = messages_.begin(); at != messages_.end();) {
    if (at->second.slot != no_slot) operations_->finish(at->second.slot, why);
    const bool whole = at->second.complete() && !at->second.discard && at->first < frontier_;
    at = whole ? std::next(at) : erase(at);
  }
}

CAUSEWAY_DECL void inbox::discard_before(std::uint32_t epoch) {
  const past_epochs over{epoch};
  for (auto at = messages_.begin(); at != messages_.end();) {
    const auto here = at++;
    if (!over.contains(here->second.id.epoch) || here->second.slot != no_slot || here->first >= frontier_) continue;
    discard(here->second);
    retire_if_complete(here);
  }
}

CAUSEWAY_DECL void inbox::refuse_before(std::uint32_t epoch) {
  past_.end_before(epoch);
  std::erase_if(given_up_, [&](const message_id& old) { return past_.contains(old.epoch); });
  discard_before(epoch);
}

CAUSEWAY_DECL void inbox::message::mark_seen(std::uint64_t chunk) {
  if (seen.empty()) seen_only = true;
  if (!seen.empty()) seen[chunk] = true;
}

CAUSEWAY_DECL bool inbox::same_conversation(const message_id& a, const message_id& b) {
  return a.channel == b.channel && a.epoch == b.epoch && a.step == b.step;
}

CAUSEWAY_DECL error inbox::broken(const char* what) const {
  return fail(errc::protocol, name_, std::string{what} + "; the connection was dropped");
}

CAUSEWAY_DECL auto inbox::announce(const frame_header& h, bool aborted) -> result<message*> {
  if (const auto found = messages_.find(h.sequence); found != messages_.end()) {
    message& m = found->second;
    if (m.id != h.id || m.length != h.message_length) return broken("it changed a message half way");
    return &m;
  }
  if (h.sequence < frontier_) return broken("it sent a message twice");
  if (kept_ > limits_.refuse_at) return broken("it sent far more than anybody asked for");
  message& m = messages_[h.sequence];
  m.id = h.id;
  m.length = m.expected = h.message_length;
  m.discard = aborted;
  if (h.message_length > limits_.chunk) m.seen.resize((h.message_length - 1) / limits_.chunk + 1);
  keep(cost_of(m));
  match_in_order(h.sequence);
  return &m;
}

CAUSEWAY_DECL void inbox::match_in_order(std::uint64_t just_announced) {
  for (auto at = messages_.find(frontier_); at != messages_.end() && at->first == frontier_; ++frontier_) {
    const auto here = at++;
    match(here->second);
    if (here->first != just_announced) retire_if_complete(here, frontier_ + 1);
  }
}

CAUSEWAY_DECL void inbox::match(message& m) {
  if (m.discard) return;
  if (past_.contains(m.id.epoch)) return discard(m);
  for (auto at = open_.begin(); at != open_.end(); ++at) {
    if (!same_conversation((*operations_)[*at].id, m.id)) continue;
    const slot_index slot = *at;
    open_.erase(at);
    return deliver_to(m, slot);
  }
  const auto late =
      std::find_if(given_up_.begin(), given_up_.end(), [&](const message_id& id) { return same_conversation(id, m.id); });
  if (late == given_up_.end()) return;
  given_up_.erase(late);
  discard(m);
}

CAUSEWAY_DECL void inbox::deliver_to(message& m, slot_index slot) {
  pending_operation& op = (*operations_)[slot];
  if (op.id.parent != m.id.parent) {
    operations_->finish(slot, fail(errc::wrong_parent, name_,
                                   "its message (" + to_text(m.id) +
                                       ") is based on another committed state than ours; it was refused unread"));
    return discard(m);
  }
  if (m.length > op.length) {
    operations_->finish(slot, fail(errc::too_large, name_,
                                   "its message (" + to_text(m.id) + ") has " + std::to_string(m.length) +
                                       " bytes, we expected at most " + std::to_string(op.length)));
    return discard(m);
  }
  m.slot = slot;
  op.moved = m.received;
  for (const kept_chunk& chunk : m.kept) copy_if_filled(m, chunk);
  drop_filled(m);
}

CAUSEWAY_DECL result<void> inbox::check_chunk(const message& m, const frame_header& h) const {
  if (h.chunk_offset % limits_.chunk != 0) return broken("it sent a chunk at a place where none starts");
  const std::uint64_t whole = std::min<std::uint64_t>(limits_.chunk, h.message_length - h.chunk_offset);
  if (h.chunk_length != whole) return broken("it sent a chunk of the wrong length");
  if (m.was_seen(h.chunk_offset / limits_.chunk)) return broken("it sent a chunk twice");
  if (m.received + m.coming + h.chunk_length > m.expected) return broken("it went on with a message that it had given up");
  return {};
}

CAUSEWAY_DECL result<void> inbox::keep_chunk(message& m, const frame_header& h, chunk_target& spot) {
  const std::size_t after = kept_ + h.chunk_length;
  if ((after > limits_.pause_at || crowded(after, 1)) && open_.empty()) {
    spot.how = chunk_target::kind::parked;
    return {};
  }
  // A receive is open and its message may be behind this one: read on beyond the limit rather than wait for ever.
  if (after > limits_.refuse_at) return broken("it sent far more than anybody asked for");
  if (crowded(after, 2)) return broken("it sent what nobody asked for, when others had used up the memory for that");
  m.kept.push_back({h.chunk_offset, h.chunk_length, false, std::unique_ptr<std::byte[]>{new std::byte[h.chunk_length]}});
  keep(h.chunk_length);
  spot.how = chunk_target::kind::kept;
  return {};
}

CAUSEWAY_DECL bool inbox::crowded(std::size_t after, std::size_t times) const {
  return limits_.shared != nullptr && after > limits_.least_share && limits_.shared->exceeded(after - kept_, times);
}

CAUSEWAY_DECL void inbox::keep(std::size_t bytes) {
  kept_ += bytes;
  if (limits_.shared != nullptr) limits_.shared->take(bytes);
}

CAUSEWAY_DECL void inbox::free(std::size_t bytes) {
  kept_ -= bytes;
  if (limits_.shared != nullptr) limits_.shared->give(bytes);
}

CAUSEWAY_DECL void inbox::mark_filled(message& m, std::uint64_t offset) {
  for (kept_chunk& chunk : m.kept) {
    if (chunk.offset != offset) continue;
    chunk.filled = true;
    copy_if_filled(m, chunk);
  }
  if (m.slot != no_slot || m.discard) drop_filled(m);
}

CAUSEWAY_DECL void inbox::copy_if_filled(const message& m, const kept_chunk& chunk) {
  if (m.slot == no_slot || !chunk.filled || chunk.length == 0) return;
  std::memcpy((*operations_)[m.slot].target + chunk.offset, chunk.bytes.get(), chunk.length);
}

CAUSEWAY_DECL void inbox::drop_filled(message& m) {
  std::erase_if(m.kept, [&](const kept_chunk& chunk) {
    if (chunk.filled) free(chunk.length);
    return chunk.filled;
  });
}

CAUSEWAY_DECL void inbox::discard(message& m) {
  m.discard = true;
  m.slot = no_slot;
  drop_filled(m);
}

CAUSEWAY_DECL void inbox::retire_if_complete(message_map::iterator at, std::uint64_t frontier) {
  message& m = at->second;
  if (!m.complete() || at->first >= frontier) return;
  if (m.slot == no_slot && !m.discard) return;
  if (m.slot != no_slot) operations_->finish(m.slot);
  erase(at);
}

CAUSEWAY_DECL auto inbox::erase(message_map::iterator at) -> message_map::iterator {
  for (const kept_chunk& chunk : at->second.kept) free(chunk.length);
  free(cost_of(at->second));
  return messages_.erase(at);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_INBOX_IPP
