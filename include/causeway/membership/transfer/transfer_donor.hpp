// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_DONOR_HPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_DONOR_HPP

// The giving side of a state transfer: answers requests out of the states that its driver offers. What was sent and not
// acknowledged is bounded for each peer and in all, so that a peer that asks for everything and reads nothing costs little,
// and peers are served in turn. A pure state machine: messages in, messages out.

#include <causeway/core/error.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/membership/state_image.hpp>
#include <causeway/membership/transfer/transfer_options.hpp>
#include <causeway/membership/transfer/transfer_wire.hpp>
#include <causeway/net/float_packing.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

/// Thread safety: none; the fabric's lock serves. Cost of a call: at most what the limits let out, a copy of it each.
class donor {
 public:
  /// Copies a chunk into the buffer, which has its size. False: it can no longer be had.
  using chunk_reader = std::function<bool(std::size_t chunk, std::span<std::byte> out)>;

  struct counts {
    std::uint64_t chunks_sent = 0;
    std::uint64_t bytes_sent = 0;       ///< content of chunks and manifests
    std::uint64_t dropped = 0;          ///< requests beyond a limit, or asked twice
    std::uint64_t malformed = 0;        ///< requests for what no state has
    std::uint64_t unknown_tickets = 0;  ///< receipts for what was not sent
  };

  /// `fx` must outlive this object.
  CAUSEWAY_DECL donor(const transfer_options& options, transfer_effects& fx);
  donor(const donor&) = delete;
  donor& operator=(const donor&) = delete;

  /// From now on gives the state of `round` to whoever asks; replaces what was offered for it. `image` must be hashed (call
  /// its root before), and stay as it is until withdrawn.
  CAUSEWAY_DECL void offer(std::uint64_t round, const state_image& image);

  /// The same from anywhere, such as a file.
  CAUSEWAY_DECL void offer(std::uint64_t round, image_layout layout, std::vector<std::uint64_t> hashes,
                           chunk_reader reader);

  /// What is offered for `round` is read from elsewhere from now on; the bytes are the same.
  CAUSEWAY_DECL void read_from(std::uint64_t round, chunk_reader reader);

  /// The memory behind an offer is about to change. Those who wait for something of it are told that it is gone.
  CAUSEWAY_DECL void withdraw(std::uint64_t round);
  CAUSEWAY_DECL void withdraw();

  [[nodiscard]] bool offers(const state_name& name) const { return find(name) != nullptr; }
  /// Precondition: it is offered.
  [[nodiscard]] std::uint64_t bytes_of(const state_name& name) const { return find(name)->bytes; }

  /// While this peer exchanges data its lines are for that: of what others fetch one chunk at a time is let out, and then
  /// none for `rest` times as long as that took to be acknowledged.
  CAUSEWAY_DECL void busy(bool yes, time_point now);
  [[nodiscard]] bool is_busy() const noexcept { return busy_; }
  /// When `wake` is to be called.
  CAUSEWAY_DECL [[nodiscard]] time_point next_wake() const noexcept;
  void wake(time_point now) { serve(now); }
  [[nodiscard]] const counts& counted() const noexcept { return counts_; }
  /// Content sent and not acknowledged.
  [[nodiscard]] std::size_t outstanding() const noexcept { return outstanding_; }
  CAUSEWAY_DECL [[nodiscard]] std::size_t outstanding(net::peer_id peer) const;

  // ---- events -------------------------------------------------------------------------------------------------------

  /// A message of one of the kinds ask_manifest, ask_chunk, receipt and cancel. Others are ignored. errc::protocol for a
  /// request for a piece that the state it names does not have: who knows the name knows how many there are.
  CAUSEWAY_DECL result<void> message(net::peer_id from, const transfer_message& m, time_point now = {});

  /// Says that a state is not to be had here, or not yet.
  CAUSEWAY_DECL void send_gone(net::peer_id to, const state_name& what);

  /// The connection ended: what was on its way is lost, and forgotten.
  CAUSEWAY_DECL void peer_down(net::peer_id peer, time_point now = {});

 private:
  struct offered {
    state_name name;
    manifest_head head;
    std::uint64_t bytes;
    std::vector<std::uint64_t> hashes;
    chunk_reader reader;
  };

  struct request {
    transfer_kind kind;
    state_name what;
    std::uint64_t index;

    friend bool operator==(const request&, const request&) = default;
  };

  struct sent {
    std::uint64_t ticket;
    std::size_t bytes;
  };

  struct asking_peer {
    std::deque<request> queue;
    std::deque<sent> unacknowledged;
    std::size_t outstanding = 0;
  };

  CAUSEWAY_DECL [[nodiscard]] const offered* find(const state_name& name) const;

  template <class Which>
  void withdraw_if(Which&& which) {
    std::erase_if(offers_, which);
    for (auto& [id, peer] : peers_) drop_lost_requests(id, peer);
  }

  // One `gone` per state, however many requests there were for it.
  CAUSEWAY_DECL void drop_lost_requests(net::peer_id id, asking_peer& peer);

  CAUSEWAY_DECL result<void> take_request(net::peer_id from, const transfer_message& m);

  CAUSEWAY_DECL void enqueue(net::peer_id from, const request& r);

  CAUSEWAY_DECL bool forget_idle_peer();

  // Messages of one connection arrive in order, so one ticket acknowledges all that was sent before it.
  CAUSEWAY_DECL void take_receipt(net::peer_id from, std::uint64_t ticket, time_point now);

  CAUSEWAY_DECL void take_cancel(net::peer_id from, const transfer_message& m);

  // One request of each peer in turn, beginning after the one served last, until nobody's next one fits.
  CAUSEWAY_DECL void serve(time_point now);

  // Nobody is locked out: who has nothing on its way gets one message, whatever the others have.
  CAUSEWAY_DECL [[nodiscard]] bool fits(const asking_peer& peer, time_point now) const;

  CAUSEWAY_DECL [[nodiscard]] std::size_t answer_size(const request& r) const;

  CAUSEWAY_DECL void serve_one(net::peer_id to, asking_peer& peer);

  transfer_options options_;
  transfer_effects* fx_;
  std::vector<offered> offers_;
  std::map<net::peer_id, asking_peer> peers_;
  std::size_t outstanding_ = 0;
  std::uint64_t newest_ = 0;
  std::uint64_t serial_ = 0;
  std::vector<std::byte> packed_;
  net::peer_id last_served_ = 0;
  static constexpr duration::rep rest = 19;  // a twentieth of a line that others need
  bool busy_ = false;
  time_point next_while_busy_;
  duration chunk_took_ = std::chrono::milliseconds{16};
  std::optional<time_point> sent_while_busy_;
  counts counts_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/transfer/impl/transfer_donor.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_DONOR_HPP
