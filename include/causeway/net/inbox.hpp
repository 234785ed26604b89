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
#include <causeway/net/epochs.hpp>
#include <causeway/net/frame.hpp>
#include <causeway/net/memory_budget.hpp>
#include <causeway/net/operations.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// The chunk that a stream is reading. It names no address: `inbox::place` tells where the next bytes go, because the
/// receive may end, and its buffer go, while the chunk is still coming in.
struct chunk_target {
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
  CAUSEWAY_DECL inbox(operation_table& operations, peer_index peer, const inbox_limits& limits);

  /// `name`: of the peer, for messages.
  CAUSEWAY_DECL inbox(operation_table& operations, std::string name, const inbox_limits& limits);
  ~inbox() { free(kept_); }
  inbox(const inbox&) = delete;
  inbox& operator=(const inbox&) = delete;

  /// A chunk's header came in. An error means that the peer broke the protocol and must be dropped.
  CAUSEWAY_DECL result<chunk_target> begin_chunk(const frame_header& h);

  /// Where the bytes of a chunk belong, now; null when nobody wants them any more. To be asked before each piece of it.
  CAUSEWAY_DECL [[nodiscard]] std::byte* place(const chunk_target& spot) const;

  /// All bytes of a chunk came, and are where `place` said.
  CAUSEWAY_DECL void end_chunk(const chunk_target& spot);

  /// The sender gave a message up after `chunk_offset` bytes of it. Its receive ends, and its buffer is the caller's again.
  /// The notice may overtake chunks, and other streams may be in the middle of some: the message is kept until all of them
  /// are over.
  CAUSEWAY_DECL result<void> abort_message(const frame_header& h);

  /// A receive was started. Ends it at once when its message is here already.
  CAUSEWAY_DECL void post(slot_index slot);

  /// A receive is given up: nothing touches its buffer from now on.
  CAUSEWAY_DECL void cancel(slot_index slot);

  /// The connection is over: ends every receive that still misses bytes. Complete messages stay and can be received.
  CAUSEWAY_DECL void fail_all(const error& why);

  /// Drops kept messages of epochs before `epoch`, of its kind: nobody will ask for them again.
  CAUSEWAY_DECL void discard_before(std::uint32_t epoch);

  /// The same, and drops what still comes of them.
  CAUSEWAY_DECL void refuse_before(std::uint32_t epoch);

  [[nodiscard]] std::size_t kept_bytes() const noexcept { return kept_; }

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
    CAUSEWAY_DECL void mark_seen(std::uint64_t chunk);
  };
  using message_map = std::map<std::uint64_t, message>;

  static std::size_t cost_of(const message& m) { return message_cost + m.seen.size() / 8; }

  CAUSEWAY_DECL static bool same_conversation(const message_id& a, const message_id& b);

  CAUSEWAY_DECL [[nodiscard]] error broken(const char* what) const;

  /// The message that a header belongs to; a new one is entered and, when its turn has come, matched.
  CAUSEWAY_DECL result<message*> announce(const frame_header& h, bool aborted = false);

  /// Matches every message whose predecessors have all been seen. One that overtook others may be complete already; the
  /// one just announced is still needed by the caller.
  CAUSEWAY_DECL void match_in_order(std::uint64_t just_announced);

  CAUSEWAY_DECL void match(message& m);

  CAUSEWAY_DECL void deliver_to(message& m, slot_index slot);

  CAUSEWAY_DECL result<void> check_chunk(const message& m, const frame_header& h) const;

  CAUSEWAY_DECL result<void> keep_chunk(message& m, const frame_header& h, chunk_target& spot);

  /// All peers together keep more than `times` the budget, and this one more than its share.
  CAUSEWAY_DECL [[nodiscard]] bool crowded(std::size_t after, std::size_t times) const;
  CAUSEWAY_DECL void keep(std::size_t bytes);
  CAUSEWAY_DECL void free(std::size_t bytes);

  CAUSEWAY_DECL void mark_filled(message& m, std::uint64_t offset);

  CAUSEWAY_DECL void copy_if_filled(const message& m, const kept_chunk& chunk);

  /// Frees kept chunks but for those that a stream still writes into.
  CAUSEWAY_DECL void drop_filled(message& m);

  CAUSEWAY_DECL void discard(message& m);

  CAUSEWAY_DECL void retire_if_complete(message_map::iterator at);

  CAUSEWAY_DECL void retire_if_complete(message_map::iterator at, std::uint64_t frontier);

  CAUSEWAY_DECL message_map::iterator erase(message_map::iterator at);

  operation_table* operations_;
  std::string name_;
  inbox_limits limits_;
  std::uint64_t frontier_ = 0;  // every message before it was seen and matched or kept
  message_map messages_;
  std::deque<slot_index> open_;      // receives without a message yet, oldest first
  std::deque<message_id> given_up_;  // receives that were cancelled before their message came
  std::size_t kept_ = 0;
  past_epochs past_;  // messages of these are dropped
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/inbox.ipp>
#endif

#endif  // CAUSEWAY_NET_INBOX_HPP
