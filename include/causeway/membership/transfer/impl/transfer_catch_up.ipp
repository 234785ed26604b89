// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_CATCH_UP_IPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_CATCH_UP_IPP

#include <causeway/membership/transfer/transfer_catch_up.hpp>

#include <algorithm>
#include <cstring>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

CAUSEWAY_DECL std::shared_ptr<const kept_bytes> kept_bytes::copy_of(const state_image& image) {
  auto copy = std::make_shared<kept_bytes>(kept_bytes{image.layout(), image.hashes(), {}});
  copy->memory.resize(image.bytes());
  for (std::size_t i = 0; i < image.chunks(); ++i) {
    const std::size_t at = i * image.layout().chunk_bytes;
    image.read(i, std::span{copy->memory}.subspan(at, image.chunk_size(i)));
  }
  return copy;
}

CAUSEWAY_DECL donor::chunk_reader kept_bytes::reader(std::shared_ptr<const kept_bytes> from) {
  return [from = std::move(from)](std::size_t chunk, std::span<std::byte> out) {
    std::memcpy(out.data(), from->memory.data() + chunk * from->layout.chunk_bytes, out.size());
    return true;
  };
}

CAUSEWAY_DECL kept_states::kept_states(donor& giving, transfer_effects& fx) : giving_{&giving}, fx_{&fx} {}

CAUSEWAY_DECL void kept_states::message(net::peer_id from, const transfer_message& m) {
  if (m.index == every_index) return release(from, m.what);
  if (!note_user(from, m.what)) {
    if (!giving_->offers(m.what)) giving_->send_gone(from, m.what);
    return;  // else it can be had as long as it is offered
  }
  const auto list = encode_means(m.index);
  fx_->transfer_send(from, encode(transfer_message{.kind = transfer_kind::means, .what = m.what, .content = list}));
}

CAUSEWAY_DECL void kept_states::peer_down(net::peer_id peer) {
  for (auto& [round, s] : states_) s.users.erase(peer);
  tidy();
}

CAUSEWAY_DECL bool kept_states::needs_copy(std::uint64_t round) const {
  const auto at = states_.find(round);
  return at != states_.end() && !at->second.bytes;
}

CAUSEWAY_DECL void kept_states::copied(std::uint64_t round, std::shared_ptr<const kept_bytes> bytes) {
  const auto at = states_.find(round);
  if (at == states_.end() || at->second.name.root != bytes->root()) return;
  giving_->read_from(round, kept_bytes::reader(bytes));
  at->second.bytes = std::move(bytes);
}

CAUSEWAY_DECL bool kept_states::has_copy(std::uint64_t round) const {
  const auto at = states_.find(round);
  return at != states_.end() && at->second.bytes;
}

CAUSEWAY_DECL void kept_states::withdrawn(std::uint64_t round) {
  if (!needs_copy(round)) return;
  states_.erase(round);
  tidy();
}

CAUSEWAY_DECL void kept_states::add_mean(std::uint64_t round, std::shared_ptr<const kept_bytes> mean) {
  if (!any() || round < next_) return;
  if (round > next_) return clear();  // one is missing: nobody can go on from here
  const std::uint64_t size = mean ? mean->memory.size() : 0;
  if (mean) giving_->offer(round | mean_bit, mean->layout, mean->hashes, kept_bytes::reader(mean));
  means_.push_back({next_++, mean ? mean->root() : 0, size});
  bytes_ += size;
  if (bytes_ > most_bytes()) clear();
}

CAUSEWAY_DECL void kept_states::clear() {
  for (auto& [round, s] : states_) s.users.clear();
  tidy();
}

CAUSEWAY_DECL bool kept_states::note_user(net::peer_id from, const state_name& what) {
  const auto at = states_.find(what.round);
  if (at != states_.end() && at->second.name == what) at->second.users.insert(from);
  if (at != states_.end()) return at->second.name == what;
  const bool next_in_line = states_.empty() || what.round + 1 == next_;
  const bool soon_old = giving_->is_busy();  // a copy would be made for somebody who does better to take the next state
  if (!giving_->offers(what) || states_.size() >= most_states || !next_in_line || soon_old) return false;
  if (states_.empty()) next_ = what.round + 1;
  states_[what.round] = {what, giving_->bytes_of(what), {from}, nullptr};
  return true;
}

CAUSEWAY_DECL void kept_states::release(net::peer_id from, const state_name& what) {
  const auto at = states_.find(what.round);
  if (at == states_.end() || at->second.name != what) return;
  at->second.users.erase(from);
  tidy();
}

CAUSEWAY_DECL void kept_states::tidy() {
  for (auto at = states_.begin(); at != states_.end();) {
    const auto here = at++;
    if (!here->second.users.empty()) continue;
    if (here->second.bytes) giving_->withdraw(here->first);
    states_.erase(here);
  }
  while (!means_.empty() && (states_.empty() || means_.front().round <= states_.begin()->first)) {
    giving_->withdraw(means_.front().round | mean_bit);
    bytes_ -= means_.front().bytes;
    means_.pop_front();
  }
}

CAUSEWAY_DECL std::uint64_t kept_states::most_bytes() const {
  std::uint64_t most = 0;
  for (const auto& [round, s] : states_) most = std::max(most, s.size);
  return most;
}

CAUSEWAY_DECL std::vector<std::byte> kept_states::encode_means(std::uint64_t from) const {
  net::byte_writer out;
  for (const kept_mean& m : means_) {
    if (m.round >= from) out.put(m.round).put(m.root);
  }
  return std::move(out).take();
}

CAUSEWAY_DECL kept_for_us::kept_for_us(transfer_effects& fx) : fx_{&fx} {}

CAUSEWAY_DECL void kept_for_us::peer_down(net::peer_id peer) { keepers_.erase(peer); }

CAUSEWAY_DECL std::vector<net::peer_id> kept_for_us::keepers() const { return {keepers_.begin(), keepers_.end()}; }

CAUSEWAY_DECL void kept_for_us::begin(const state_name& what, std::span<const net::peer_id> holders) {
  end();
  base_ = what;
  for (const net::peer_id id : holders) send(id, what.round + 1);
}

CAUSEWAY_DECL void kept_for_us::ask(std::uint64_t round) {
  answered_ = false;
  for (const net::peer_id id : keepers_) send(id, round);
}

CAUSEWAY_DECL void kept_for_us::end() {
  for (const net::peer_id id : std::exchange(keepers_, {})) send(id, every_index);
  roots_.clear();
  answered_ = false;
}

CAUSEWAY_DECL void kept_for_us::message(net::peer_id from, const transfer_message& m) {
  if (m.what != base_) return;
  if (m.kind == transfer_kind::gone) return void(keepers_.erase(from));
  if (m.kind != transfer_kind::means || m.content.size() % 16 != 0) return;
  keepers_.insert(from);
  answered_ = true;
  net::byte_reader in{m.content};
  while (in.remaining() > 0 && roots_.size() < most_rounds) {
    const auto round = in.get<std::uint64_t>();
    roots_.insert_or_assign(round, in.get<std::uint64_t>());
  }
}

CAUSEWAY_DECL std::optional<std::uint64_t> kept_for_us::root_of(std::uint64_t round) const {
  const auto at = roots_.find(round);
  return at == roots_.end() ? std::nullopt : std::optional{at->second};
}

CAUSEWAY_DECL void kept_for_us::send(net::peer_id to, std::uint64_t index) {
  fx_->transfer_send(to, encode(transfer_message{.kind = transfer_kind::keep, .what = base_, .index = index}));
}

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_CATCH_UP_IPP
