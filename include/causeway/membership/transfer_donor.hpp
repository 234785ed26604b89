// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_DONOR_HPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_DONOR_HPP

// The giving side of a state transfer: answers requests out of the states that its driver offers. What was sent and not
// acknowledged is bounded for each peer and in all, so that a peer that asks for everything and reads nothing costs little,
// and peers are served in turn. A pure state machine: messages in, messages out.

#include <causeway/core/error.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/membership/state_image.hpp>
#include <causeway/membership/transfer_options.hpp>
#include <causeway/membership/transfer_wire.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::membership {

/// Thread safety: none; the fabric's lock serves. Cost of a call: at most what the limits let out, a copy of it each.
class donor {
 public:
  /// Copies a chunk into the buffer, which has its size. False: it can no longer be had.
  using chunk_reader = std::function<bool(std::size_t chunk, std::span<std::byte> out)>;

  struct counts {
    std::uint64_t chunks_sent = 0;
    std::uint64_t bytes_sent = 0;  ///< content of chunks and manifests
    std::uint64_t gone_sent = 0;
    std::uint64_t dropped = 0;          ///< requests beyond a limit, or asked twice
    std::uint64_t malformed = 0;        ///< requests for what no state has
    std::uint64_t unknown_tickets = 0;  ///< receipts for what was not sent
  };

  /// `fx` must outlive this object.
  donor(const transfer_options& options, transfer_effects& fx) : options_{options}, fx_{&fx} {}
  donor(const donor&) = delete;
  donor& operator=(const donor&) = delete;

  /// From now on gives the state of `round` to whoever asks; replaces what was offered for it. `image` must be hashed (call
  /// its root before), and stay as it is until withdrawn.
  void offer(std::uint64_t round, const state_image& image) {
    offer(round, image.layout(), image.hashes(), [&image](std::size_t chunk, std::span<std::byte> out) {
      image.read(chunk, out);
      return true;
    });
  }

  /// The same from anywhere, such as a file.
  void offer(std::uint64_t round, image_layout layout, std::vector<std::uint64_t> hashes, chunk_reader reader) {
    withdraw(round);
    CAUSEWAY_EXPECT(hashes.size() == layout.chunks());
    CAUSEWAY_EXPECT(layout.chunk_bytes + transfer_overhead <= net::max_post_bytes);
    const std::uint64_t digest = digest_of(hashes);
    const state_name name{round, state_root(layout, digest)};
    const std::uint64_t bytes = layout.bytes();
    offers_.push_back({name, {std::move(layout), digest}, bytes, std::move(hashes), std::move(reader)});
    if ((round & mean_bit) == 0) newest_ = std::max(newest_, round);
  }

  /// What is offered for `round` is read from elsewhere from now on; the bytes are the same.
  void read_from(std::uint64_t round, chunk_reader reader) {
    const auto at = std::find_if(offers_.begin(), offers_.end(), [&](const offered& o) { return o.name.round == round; });
    if (at != offers_.end()) at->reader = std::move(reader);
  }

  /// The memory behind an offer is about to change. Those who wait for something of it are told that it is gone.
  void withdraw(std::uint64_t round) {
    withdraw_if([&](const offered& o) { return o.name.round == round; });
  }
  void withdraw() {
    withdraw_if([](const offered&) { return true; });
  }

  [[nodiscard]] bool offers(const state_name& name) const { return find(name) != nullptr; }
  /// Precondition: it is offered.
  [[nodiscard]] std::uint64_t bytes_of(const state_name& name) const { return find(name)->bytes; }

  /// While this peer exchanges data its lines are for that: of what others fetch one chunk at a time is let out, and then
  /// none for `rest` times as long as that took to be acknowledged.
  void busy(bool yes, time_point now) {
    if (std::exchange(busy_, yes) == yes) return;
    next_while_busy_ = now + rest * chunk_took_;
    if (!yes) serve(now);
  }
  /// When `wake` is to be called.
  [[nodiscard]] time_point next_wake() const noexcept {
    const bool waits = busy_ && outstanding_ == 0 &&
                       std::any_of(peers_.begin(), peers_.end(), [](const auto& p) { return !p.second.queue.empty(); });
    return waits ? next_while_busy_ : no_deadline;
  }
  void wake(time_point now) { serve(now); }
  [[nodiscard]] const counts& counted() const noexcept { return counts_; }
  /// Content sent and not acknowledged.
  [[nodiscard]] std::size_t outstanding() const noexcept { return outstanding_; }
  [[nodiscard]] std::size_t outstanding(net::peer_id peer) const {
    const auto at = peers_.find(peer);
    return at == peers_.end() ? 0 : at->second.outstanding;
  }

  // ---- events -------------------------------------------------------------------------------------------------------

  /// A message of one of the kinds ask_manifest, ask_chunk, receipt and cancel. Others are ignored. errc::protocol for a
  /// request for a piece that the state it names does not have: who knows the name knows how many there are.
  result<void> message(net::peer_id from, const transfer_message& m, time_point now = {}) {
    switch (m.kind) {
      case transfer_kind::ask_manifest:
      case transfer_kind::ask_chunk: CAUSEWAY_TRY(take_request(from, m)); break;
      case transfer_kind::receipt: take_receipt(from, m.ticket, now); break;
      case transfer_kind::cancel: take_cancel(from, m); break;
      default: return {};
    }
    serve(now);
    return {};
  }

  /// Says that a state is not to be had here, or not yet.
  void send_gone(net::peer_id to, const state_name& what) {
    ++counts_.gone_sent;
    fx_->transfer_send(to, encode(transfer_message{.kind = transfer_kind::gone, .what = what, .newest = newest_}));
  }

  /// The connection ended: what was on its way is lost, and forgotten.
  void peer_down(net::peer_id peer, time_point now = {}) {
    const auto at = peers_.find(peer);
    if (at == peers_.end()) return;
    outstanding_ -= at->second.outstanding;
    peers_.erase(at);
    serve(now);
  }

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

  [[nodiscard]] const offered* find(const state_name& name) const {
    const auto at = std::find_if(offers_.begin(), offers_.end(), [&](const offered& o) { return o.name == name; });
    return at == offers_.end() ? nullptr : &*at;
  }

  template <class Which>
  void withdraw_if(Which&& which) {
    std::erase_if(offers_, which);
    for (auto& [id, peer] : peers_) drop_lost_requests(id, peer);
  }

  // One `gone` per state, however many requests there were for it.
  void drop_lost_requests(net::peer_id id, asking_peer& peer) {
    std::vector<state_name> told;
    std::erase_if(peer.queue, [&](const request& r) {
      if (find(r.what) != nullptr) return false;
      if (std::find(told.begin(), told.end(), r.what) == told.end()) {
        told.push_back(r.what);
        send_gone(id, r.what);
      }
      return true;
    });
  }

  result<void> take_request(net::peer_id from, const transfer_message& m) {
    const offered* state = find(m.what);
    if (state == nullptr) return send_gone(from, m.what), result<void>{};
    const std::uint64_t end =
        m.kind == transfer_kind::ask_chunk ? state->hashes.size() : manifest_pieces(state->hashes.size());
    if (m.index >= end) {
      ++counts_.malformed;
      return fail(errc::protocol, "state transfer", "asked for a piece that the state it named does not have");
    }
    enqueue(from, {m.kind, m.what, m.index});
    return {};
  }

  void enqueue(net::peer_id from, const request& r) {
    const bool full = peers_.size() >= options_.max_peers && !peers_.contains(from) && !forget_idle_peer();
    if (full) return void(++counts_.dropped);
    auto& queue = peers_[from].queue;
    if (queue.size() >= options_.max_queue || std::find(queue.begin(), queue.end(), r) != queue.end()) {
      return void(++counts_.dropped);
    }
    queue.push_back(r);
  }

  bool forget_idle_peer() {
    const auto idle = [](const auto& entry) { return entry.second.queue.empty() && entry.second.outstanding == 0; };
    const auto at = std::find_if(peers_.begin(), peers_.end(), idle);
    if (at == peers_.end()) return false;
    peers_.erase(at);
    return true;
  }

  // Messages of one connection arrive in order, so one ticket acknowledges all that was sent before it.
  void take_receipt(net::peer_id from, std::uint64_t ticket, time_point now) {
    const auto at = peers_.find(from);
    if (at == peers_.end()) return void(++counts_.unknown_tickets);
    asking_peer& peer = at->second;
    const auto last = std::find_if(peer.unacknowledged.begin(), peer.unacknowledged.end(),
                                   [&](const sent& s) { return s.ticket == ticket; });
    if (last == peer.unacknowledged.end()) return void(++counts_.unknown_tickets);
    for (auto s = peer.unacknowledged.begin(); s != last + 1; ++s) {
      peer.outstanding -= s->bytes;
      outstanding_ -= s->bytes;
    }
    peer.unacknowledged.erase(peer.unacknowledged.begin(), last + 1);
    if (busy_ && outstanding_ == 0 && sent_while_busy_) {
      chunk_took_ = now - *sent_while_busy_;
      next_while_busy_ = now + rest * chunk_took_;
      sent_while_busy_.reset();
    }
  }

  void take_cancel(net::peer_id from, const transfer_message& m) {
    const auto at = peers_.find(from);
    if (at == peers_.end()) return;
    std::erase_if(at->second.queue, [&](const request& r) {
      return r.what == m.what && (m.index == every_index || (r.kind == transfer_kind::ask_chunk && r.index == m.index));
    });
  }

  // One request of each peer in turn, beginning after the one served last, until nobody's next one fits.
  void serve(time_point now) {
    for (bool any = true; any;) {
      any = false;
      auto at = peers_.upper_bound(last_served_);
      for (std::size_t i = 0; i < peers_.size(); ++i, ++at) {
        if (at == peers_.end()) at = peers_.begin();
        if (at->second.queue.empty() || !fits(at->second, now)) continue;
        last_served_ = at->first;
        if (busy_ && at->second.queue.front().kind == transfer_kind::ask_chunk) sent_while_busy_ = now;
        serve_one(at->first, at->second);
        any = true;
      }
    }
  }

  // Nobody is locked out: who has nothing on its way gets one message, whatever the others have.
  [[nodiscard]] bool fits(const asking_peer& peer, time_point now) const {
    const bool chunk = peer.queue.front().kind == transfer_kind::ask_chunk;
    if (busy_ && chunk && (outstanding_ > 0 || now < next_while_busy_)) return false;
    if (peer.outstanding == 0) return true;
    const std::size_t size = answer_size(peer.queue.front());
    return peer.outstanding + size <= options_.outstanding_per_peer && outstanding_ + size <= options_.outstanding_total;
  }

  [[nodiscard]] std::size_t answer_size(const request& r) const {
    const offered& state = *find(r.what);
    if (r.kind == transfer_kind::ask_chunk) {
      const std::uint64_t most = state.head.layout.chunk_bytes;
      return static_cast<std::size_t>(std::min(most, state.bytes - r.index * most));
    }
    if (r.index == 0) return 16 + 8 * state.head.layout.sizes.size();
    return 8 * std::min<std::size_t>(hashes_per_piece,
                                     state.hashes.size() - static_cast<std::size_t>(r.index - 1) * hashes_per_piece);
  }

  void serve_one(net::peer_id to, asking_peer& peer) {
    const request r = peer.queue.front();
    peer.queue.pop_front();
    const offered& state = *find(r.what);
    const std::size_t size = answer_size(r);
    const std::uint64_t ticket = causeway::detail::scramble(options_.seed ^ ++serial_);
    const bool chunk = r.kind == transfer_kind::ask_chunk;
    transfer_message answer{
        .kind = chunk ? transfer_kind::chunk : transfer_kind::manifest, .what = r.what, .index = r.index, .ticket = ticket};
    std::vector<std::byte> bytes;
    if (chunk) {
      bytes = encode_transfer_head(answer, size);
      if (!state.reader(static_cast<std::size_t>(r.index), std::span{bytes}.last(size))) return send_gone(to, r.what);
    } else {
      const auto content = r.index == 0 ? encode(state.head) : encode_hashes(state.hashes, r.index);
      answer.content = content;
      bytes = encode(answer);
    }
    peer.unacknowledged.push_back({ticket, size});
    peer.outstanding += size;
    outstanding_ += size;
    counts_.bytes_sent += size;
    if (chunk) ++counts_.chunks_sent;
    fx_->transfer_send(to, std::move(bytes));
  }

  transfer_options options_;
  transfer_effects* fx_;
  std::vector<offered> offers_;
  std::map<net::peer_id, asking_peer> peers_;
  std::size_t outstanding_ = 0;
  std::uint64_t newest_ = 0;
  std::uint64_t serial_ = 0;
  net::peer_id last_served_ = 0;
  static constexpr duration::rep rest = 19;  // a twentieth of a line that others need
  bool busy_ = false;
  time_point next_while_busy_;
  duration chunk_took_ = std::chrono::milliseconds{16};
  std::optional<time_point> sent_while_busy_;
  counts counts_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_DONOR_HPP
