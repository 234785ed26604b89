// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_DONOR_IPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_DONOR_IPP

#include <causeway/membership/transfer/transfer_donor.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

CAUSEWAY_DECL donor::donor(const transfer_options& options, transfer_effects& fx) : options_{options}, fx_{&fx} {}

CAUSEWAY_DECL void donor::offer(std::uint64_t round, const state_image& image) {
  offer(round, image.layout(), image.hashes(), [&image](std::size_t chunk, std::span<std::byte> out) {
    image.read(chunk, out);
    return true;
  });
}

CAUSEWAY_DECL void donor::offer(std::uint64_t round, image_layout layout, std::vector<std::uint64_t> hashes,
                                chunk_reader reader) {
  withdraw(round);
  CAUSEWAY_EXPECT(hashes.size() == layout.chunks());
  CAUSEWAY_EXPECT(layout.chunk_bytes + transfer_overhead <= net::max_post_bytes);
  const std::uint64_t digest = digest_of(hashes);
  const state_name name{round, state_root(layout, digest)};
  const std::uint64_t bytes = layout.bytes();
  offers_.push_back({name, {std::move(layout), digest}, bytes, std::move(hashes), std::move(reader)});
  if ((round & mean_bit) == 0) newest_ = std::max(newest_, round);
}

CAUSEWAY_DECL void donor::read_from(std::uint64_t round, chunk_reader reader) {
  const auto at = std::find_if(offers_.begin(), offers_.end(), [&](const offered& o) { return o.name.round == round; });
  if (at != offers_.end()) at->reader = std::move(reader);
}

CAUSEWAY_DECL void donor::withdraw(std::uint64_t round) {
  withdraw_if([&](const offered& o) { return o.name.round == round; });
}

CAUSEWAY_DECL void donor::withdraw() {
  withdraw_if([](const offered&) { return true; });
}

CAUSEWAY_DECL void donor::busy(bool yes, time_point now) {
  if (std::exchange(busy_, yes) == yes) return;
  next_while_busy_ = now + rest * chunk_took_;
  if (!yes) serve(now);
}

CAUSEWAY_DECL time_point donor::next_wake() const noexcept {
  const bool waits = busy_ && outstanding_ == 0 &&
                     std::any_of(peers_.begin(), peers_.end(), [](const auto& p) { return !p.second.queue.empty(); });
  return waits ? next_while_busy_ : no_deadline;
}

CAUSEWAY_DECL std::size_t donor::outstanding(net::peer_id peer) const {
  const auto at = peers_.find(peer);
  return at == peers_.end() ? 0 : at->second.outstanding;
}

CAUSEWAY_DECL result<void> donor::message(net::peer_id from, const transfer_message& m, time_point now) {
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

CAUSEWAY_DECL void donor::send_gone(net::peer_id to, const state_name& what) {
  fx_->transfer_send(to, encode(transfer_message{.kind = transfer_kind::gone, .what = what, .newest = newest_}));
}

CAUSEWAY_DECL void donor::peer_down(net::peer_id peer, time_point now) {
  const auto at = peers_.find(peer);
  if (at == peers_.end()) return;
  outstanding_ -= at->second.outstanding;
  peers_.erase(at);
  serve(now);
}

CAUSEWAY_DECL auto donor::find(const state_name& name) const -> const offered* {
  const auto at = std::find_if(offers_.begin(), offers_.end(), [&](const offered& o) { return o.name == name; });
  return at == offers_.end() ? nullptr : &*at;
}

CAUSEWAY_DECL void donor::drop_lost_requests(net::peer_id id, asking_peer& peer) {
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

CAUSEWAY_DECL result<void> donor::take_request(net::peer_id from, const transfer_message& m) {
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

CAUSEWAY_DECL void donor::enqueue(net::peer_id from, const request& r) {
  const bool full = peers_.size() >= options_.max_peers && !peers_.contains(from) && !forget_idle_peer();
  if (full) return void(++counts_.dropped);
  auto& queue = peers_[from].queue;
  if (queue.size() >= options_.max_queue || std::find(queue.begin(), queue.end(), r) != queue.end()) {
    return void(++counts_.dropped);
  }
  queue.push_back(r);
}

CAUSEWAY_DECL bool donor::forget_idle_peer() {
  const auto idle = [](const auto& entry) { return entry.second.queue.empty() && entry.second.outstanding == 0; };
  const auto at = std::find_if(peers_.begin(), peers_.end(), idle);
  if (at == peers_.end()) return false;
  peers_.erase(at);
  return true;
}

CAUSEWAY_DECL void donor::take_receipt(net::peer_id from, std::uint64_t ticket, time_point now) {
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

CAUSEWAY_DECL void donor::take_cancel(net::peer_id from, const transfer_message& m) {
  const auto at = peers_.find(from);
  if (at == peers_.end()) return;
  std::erase_if(at->second.queue, [&](const request& r) {
    return r.what == m.what && (m.index == every_index || (r.kind == transfer_kind::ask_chunk && r.index == m.index));
  });
}

CAUSEWAY_DECL void donor::serve(time_point now) {
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

CAUSEWAY_DECL bool donor::fits(const asking_peer& peer, time_point now) const {
  const bool chunk = peer.queue.front().kind == transfer_kind::ask_chunk;
  if (busy_ && chunk && (outstanding_ > 0 || now < next_while_busy_)) return false;
  if (peer.outstanding == 0) return true;
  const std::size_t size = answer_size(peer.queue.front());
  return peer.outstanding + size <= options_.outstanding_per_peer && outstanding_ + size <= options_.outstanding_total;
}

CAUSEWAY_DECL std::size_t donor::answer_size(const request& r) const {
  const offered& state = *find(r.what);
  if (r.kind == transfer_kind::ask_chunk) {
    const std::uint64_t most = state.head.layout.chunk_bytes;
    return static_cast<std::size_t>(std::min(most, state.bytes - r.index * most));
  }
  if (r.index == 0) return 16 + 8 * state.head.layout.sizes.size();
  return 8 * std::min<std::size_t>(hashes_per_piece,
                                   state.hashes.size() - static_cast<std::size_t>(r.index - 1) * hashes_per_piece);
}

CAUSEWAY_DECL void donor::serve_one(net::peer_id to, asking_peer& peer) {
  const request r = peer.queue.front();
  peer.queue.pop_front();
  const offered& state = *find(r.what);
  std::size_t size = answer_size(r);
  const std::uint64_t ticket = causeway::detail::scramble(options_.seed ^ ++serial_);
  const bool chunk = r.kind == transfer_kind::ask_chunk;
  transfer_message answer{
      .kind = chunk ? transfer_kind::chunk : transfer_kind::manifest, .what = r.what, .index = r.index, .ticket = ticket};
  std::vector<std::byte> bytes;
  if (chunk) {
    bytes = encode_transfer_head(answer, size);
    const auto content = std::span{bytes}.last(size);
    if (!state.reader(static_cast<std::size_t>(r.index), content)) return send_gone(to, r.what);
    packed_.resize(size);
    if (const std::size_t fewer = net::pack_floats(content, packed_); fewer > 0) {
      answer.kind = transfer_kind::packed_chunk;
      answer.content = std::span{packed_}.first(size = fewer);
      bytes = encode(answer);
    }
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

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_DONOR_IPP
