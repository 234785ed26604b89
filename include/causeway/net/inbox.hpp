// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_INBOX_HPP
#define CAUSEWAY_NET_INBOX_HPP

// What arrives from one peer: finds the receive that a message belongs to, says where each chunk's bytes go, and keeps
// messages that nobody asked for yet. Pure bookkeeping without sockets.
//
// Messages are matched in the order of their sequence numbers, also when their chunks overtake each other on different
// streams. Memory follows the bytes that arrived: a message nobody asked for is kept chunk by chunk, never allocated by its
// claimed length. Not thread-safe: the transport locks.

#include <causeway/core/result.hpp>
#include <causeway/net/frame.hpp>
#include <causeway/net/memory_budget.hpp>
#include <causeway/net/operations.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::net::detail {

/// The chunk that a stream is reading. It names no address: `inbox::place` tells where the next bytes go, because the
/// receive may end, and its buffer go, while the chunk is still coming in.
struct landing {
  enum class kind : std::uint8_t { user_buffer, kept, discard, parked };
  kind how = kind::parked;  ///< parked: no room, read nothing more from this stream
  std::uint64_t sequence = 0;
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
};

struct inbox_limits {
  std::size_t chunk = std::size_t{1} << 20U;        ///< the sender's chunk length
  std::size_t pause_at = std::size_t{64} << 20U;    ///< kept bytes at which reading stops while no receive is open
  std::size_t refuse_at = std::size_t{256} << 20U;  ///< kept bytes at which the peer is dropped
  memory_budget* shared = nullptr;                  ///< with the other peers: beyond it each keeps `least_share`, and waits
  std::size_t least_share = std::size_t{4} << 20U;
};

class inbox {
 public:
  inbox(operation_table& operations, peer_index peer, const inbox_limits& limits)
      : inbox{operations, peer_name(peer), limits} {}

  /// `name`: of the peer, for messages.
  inbox(operation_table& operations, std::string name, const inbox_limits& limits)
      : operations_{&operations}, name_{std::move(name)}, limits_{limits} {}
  ~inbox() { free(kept_); }
  inbox(const inbox&) = delete;
  inbox& operator=(const inbox&) = delete;

  /// A chunk's header came in. An error means that the peer broke the protocol and must be dropped.
  result<landing> begin_chunk(const frame_header& h) {
    CAUSEWAY_ASSIGN(message* const m, announce(h));
    CAUSEWAY_TRY(check_chunk(*m, h));
    landing spot{landing::kind::discard, h.sequence, h.chunk_offset, h.chunk_length};
    if (m->slot != no_slot) {
      spot.how = landing::kind::user_buffer;
    } else if (!m->discard) {
      CAUSEWAY_TRY(keep_chunk(*m, h, spot));
    }
    if (spot.how == landing::kind::parked) return spot;
    m->mark_seen(h.chunk_offset / limits_.chunk);
    m->coming += h.chunk_length;
    return spot;
  }

  /// Where the bytes of a chunk belong, now; null when nobody wants them any more. To be asked before each piece of it.
  [[nodiscard]] std::byte* place(const landing& spot) const {
    const auto found = messages_.find(spot.sequence);
    if (spot.how == landing::kind::discard || found == messages_.end()) return nullptr;
    const message& m = found->second;
    if (spot.how == landing::kind::user_buffer) {
      return m.slot == no_slot ? nullptr : (*operations_)[m.slot].target + spot.offset;
    }
    const auto kept =
        std::find_if(m.kept.begin(), m.kept.end(), [&](const kept_chunk& c) { return c.offset == spot.offset; });
    return kept == m.kept.end() ? nullptr : kept->bytes.get();
  }

  /// All bytes of a chunk came, and are where `place` said.
  void end_chunk(const landing& spot) {
    const auto found = messages_.find(spot.sequence);
    CAUSEWAY_EXPECT(found != messages_.end());
    message& m = found->second;
    m.coming -= spot.length;
    m.received += spot.length;
    if (spot.how == landing::kind::kept) settle_kept(m, spot.offset);
    if (m.slot != no_slot) (*operations_)[m.slot].moved = m.received;
    retire_if_complete(found);
  }

  /// The sender gave a message up after `chunk_offset` bytes of it. Its receive ends, and its buffer is the caller's again.
  /// The notice may overtake chunks, and other streams may be in the middle of some: the message is kept until all of them
  /// are over.
  result<void> abort_message(const frame_header& h) {
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

  /// A receive was started. Ends it at once when its message is here already.
  void post(slot_index slot) {
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

  /// A receive is given up: nothing touches its buffer from now on.
  void cancel(slot_index slot) {
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

  /// The connection is over: ends every receive that still misses bytes. Complete messages stay and can be received.
  void fail_all(const error& why) {
    for (const slot_index slot : open_) operations_->finish(slot, why);
    open_.clear();
    for (auto at = messages_.begin(); at != messages_.end();) {
      if (at->second.slot != no_slot) operations_->finish(at->second.slot, why);
      const bool whole = at->second.complete() && !at->second.discard && at->first < frontier_;
      at = whole ? std::next(at) : erase(at);
    }
  }

  /// Drops kept messages of epochs before `epoch`: nobody will ask for them again.
  void discard_before(std::uint32_t epoch) {
    for (auto at = messages_.begin(); at != messages_.end();) {
      const auto here = at++;
      if (here->second.id.epoch >= epoch || here->second.slot != no_slot || here->first >= frontier_) continue;
      discard(here->second);
      retire_if_complete(here);
    }
  }

  /// The same, and drops what still comes of them.
  void refuse_before(std::uint32_t epoch) {
    first_epoch_ = epoch;
    std::erase_if(given_up_, [&](const message_id& old) { return old.epoch < epoch; });
    discard_before(epoch);
  }

  [[nodiscard]] std::size_t kept_bytes() const noexcept { return kept_; }
  [[nodiscard]] bool wants_anything() const noexcept { return !open_.empty(); }

 private:
  static constexpr std::size_t remembered_cancels = 256;
  static constexpr std::size_t message_cost = 256;  // what an empty message counts, so that floods of them are bounded

  struct kept_chunk {
    std::uint64_t offset = 0;
    std::size_t length = 0;
    bool filled = false;
    std::unique_ptr<std::byte[]> bytes;
  };

  struct message {
    message_id id;
    std::uint64_t length = 0;
    std::uint64_t received = 0;
    std::uint64_t coming = 0;    ///< bytes of chunks that streams are in the middle of
    std::uint64_t expected = 0;  ///< the length, or less once the sender gave it up
    slot_index slot = no_slot;   ///< the receive it goes to
    bool discard = false;
    std::vector<bool> seen;  ///< chunks that came; empty for a message of one chunk
    bool seen_only = false;
    std::vector<kept_chunk> kept;

    [[nodiscard]] bool complete() const { return received == expected && (length != 0 || seen_only || discard); }
    [[nodiscard]] bool was_seen(std::uint64_t chunk) const { return seen.empty() ? seen_only : seen[chunk]; }
    void mark_seen(std::uint64_t chunk) {
      if (seen.empty()) seen_only = true;
      if (!seen.empty()) seen[chunk] = true;
    }
  };
  using message_map = std::map<std::uint64_t, message>;

  static std::size_t cost_of(const message& m) { return message_cost + m.seen.size() / 8; }

  static bool same_conversation(const message_id& a, const message_id& b) {
    return a.channel == b.channel && a.epoch == b.epoch && a.step == b.step;
  }

  [[nodiscard]] error broken(const char* what) const {
    return fail(errc::protocol, name_, std::string{what} + "; the connection was dropped");
  }

  /// The message that a header belongs to; a new one is entered and, when its turn has come, matched.
  result<message*> announce(const frame_header& h, bool aborted = false) {
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

  /// Matches every message whose predecessors have all been seen. One that overtook others may be complete already; the
  /// one just announced is still needed by the caller.
  void match_in_order(std::uint64_t just_announced) {
    for (auto at = messages_.find(frontier_); at != messages_.end() && at->first == frontier_; ++frontier_) {
      const auto here = at++;
      match(here->second);
      if (here->first != just_announced) retire_if_complete(here, frontier_ + 1);
    }
  }

  void match(message& m) {
    if (m.discard) return;
    if (m.id.epoch < first_epoch_) return discard(m);
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

  void deliver_to(message& m, slot_index slot) {
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

  result<void> check_chunk(const message& m, const frame_header& h) const {
    if (h.chunk_offset % limits_.chunk != 0) return broken("it sent a chunk at a place where none starts");
    const std::uint64_t whole = std::min<std::uint64_t>(limits_.chunk, h.message_length - h.chunk_offset);
    if (h.chunk_length != whole) return broken("it sent a chunk of the wrong length");
    if (m.was_seen(h.chunk_offset / limits_.chunk)) return broken("it sent a chunk twice");
    if (m.received + m.coming + h.chunk_length > m.expected)
      return broken("it went on with a message that it had given up");
    return {};
  }

  result<void> keep_chunk(message& m, const frame_header& h, landing& spot) {
    const std::size_t after = kept_ + h.chunk_length;
    if ((after > limits_.pause_at || crowded(after, 1)) && open_.empty()) {
      spot.how = landing::kind::parked;
      return {};
    }
    // A receive is open and its message may be behind this one: read on beyond the limit rather than wait for ever.
    if (after > limits_.refuse_at) return broken("it sent far more than anybody asked for");
    if (crowded(after, 2)) return broken("it sent what nobody asked for, when others had used up the memory for that");
    m.kept.push_back({h.chunk_offset, h.chunk_length, false, std::unique_ptr<std::byte[]>{new std::byte[h.chunk_length]}});
    keep(h.chunk_length);
    spot.how = landing::kind::kept;
    return {};
  }

  /// All peers together keep more than `times` the budget, and this one more than its share.
  [[nodiscard]] bool crowded(std::size_t after, std::size_t times) const {
    return limits_.shared != nullptr && after > limits_.least_share && limits_.shared->exceeded(after - kept_, times);
  }
  void keep(std::size_t bytes) {
    kept_ += bytes;
    if (limits_.shared != nullptr) limits_.shared->take(bytes);
  }
  void free(std::size_t bytes) {
    kept_ -= bytes;
    if (limits_.shared != nullptr) limits_.shared->give(bytes);
  }

  void settle_kept(message& m, std::uint64_t offset) {
    for (kept_chunk& chunk : m.kept) {
      if (chunk.offset != offset) continue;
      chunk.filled = true;
      copy_if_filled(m, chunk);
    }
    if (m.slot != no_slot || m.discard) drop_filled(m);
  }

  void copy_if_filled(const message& m, const kept_chunk& chunk) {
    if (m.slot == no_slot || !chunk.filled || chunk.length == 0) return;
    std::memcpy((*operations_)[m.slot].target + chunk.offset, chunk.bytes.get(), chunk.length);
  }

  /// Frees kept chunks but for those that a stream still writes into.
  void drop_filled(message& m) {
    std::erase_if(m.kept, [&](const kept_chunk& chunk) {
      if (chunk.filled) free(chunk.length);
      return chunk.filled;
    });
  }

  void discard(message& m) {
    m.discard = true;
    m.slot = no_slot;
    drop_filled(m);
  }

  void retire_if_complete(message_map::iterator at) { retire_if_complete(at, frontier_); }

  void retire_if_complete(message_map::iterator at, std::uint64_t frontier) {
    message& m = at->second;
    if (!m.complete() || at->first >= frontier) return;
    if (m.slot == no_slot && !m.discard) return;
    if (m.slot != no_slot) operations_->finish(m.slot);
    erase(at);
  }

  message_map::iterator erase(message_map::iterator at) {
    for (const kept_chunk& chunk : at->second.kept) free(chunk.length);
    free(cost_of(at->second));
    return messages_.erase(at);
  }

  operation_table* operations_;
  std::string name_;
  inbox_limits limits_;
  std::uint64_t frontier_ = 0;  // every message before it was seen and matched or kept
  message_map messages_;
  std::deque<slot_index> open_;      // receives without a message yet, oldest first
  std::deque<message_id> given_up_;  // receives that were cancelled before their message came
  std::size_t kept_ = 0;
  std::uint32_t first_epoch_ = 0;  // messages of earlier ones are dropped
};

}  // namespace causeway::inline CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_INBOX_HPP
