// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_CATCH_UP_HPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_CATCH_UP_HPP

// For transfers that take longer than a round. The giving side keeps a copy of the state that is being fetched, and what
// the rounds since have exchanged: the mean of each. The taking side, once it holds the old state, does those rounds again
// from their means. Both are known by the pair (round, root), as states are, and travel as they do.

#include <causeway/core/result.hpp>
#include <causeway/membership/state_image.hpp>
#include <causeway/membership/transfer_donor.hpp>
#include <causeway/membership/transfer_options.hpp>
#include <causeway/membership/transfer_wire.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::membership {

/// Bytes beside the memory that they are a copy of. Immutable once made.
struct kept_bytes {
  image_layout layout;
  std::vector<std::uint64_t> hashes;
  std::vector<std::byte> memory;

  /// Precondition: `image` is hashed. Cost: one copy of it.
  [[nodiscard]] static std::shared_ptr<const kept_bytes> copy_of(const state_image& image) {
    auto copy = std::make_shared<kept_bytes>(kept_bytes{image.layout(), image.hashes(), {}});
    copy->memory.resize(image.bytes());
    for (std::size_t i = 0; i < image.chunks(); ++i) {
      const std::size_t at = i * image.layout().chunk_bytes;
      image.read(i, std::span{copy->memory}.subspan(at, image.chunk_size(i)));
    }
    return copy;
  }

  [[nodiscard]] std::uint64_t root() const { return state_root(layout, digest_of(hashes)); }

  [[nodiscard]] static donor::chunk_reader reader(std::shared_ptr<const kept_bytes> from) {
    return [from = std::move(from)](std::size_t chunk, std::span<std::byte> out) {
      std::memcpy(out.data(), from->memory.data() + chunk * from->layout.chunk_bytes, out.size());
      return true;
    };
  }
};

/// The giving side. Memory: at most two copies of the state, and as much again for the means of rounds: where these are
/// more than a state, whoever fetches it cannot catch up, and it is given up. Thread safety: none; the fabric's lock
/// serves.
class kept_states {
 public:
  /// Both must outlive this object.
  kept_states(donor& giving, transfer_effects& fx) : giving_{&giving}, fx_{&fx} {}

  /// A message of the kind keep.
  void message(net::peer_id from, const transfer_message& m) {
    if (m.index == every_index) return release(from, m.what);
    if (!note_user(from, m.what)) {
      if (!giving_->offers(m.what)) giving_->send_gone(from, m.what);
      return;  // else it can be had as long as it is offered
    }
    const auto list = encode_means(m.index);
    fx_->transfer_send(from, encode(transfer_message{.kind = transfer_kind::means, .what = m.what, .content = list}));
  }

  void peer_down(net::peer_id peer) {
    for (auto& [round, s] : states_) s.users.erase(peer);
    tidy();
  }

  /// Whether the means of rounds are to be added.
  [[nodiscard]] bool any() const noexcept { return !states_.empty(); }

  /// Whether the state of `round`, whose memory is about to change, is to be copied first: see copied.
  [[nodiscard]] bool needs_copy(std::uint64_t round) const {
    const auto at = states_.find(round);
    return at != states_.end() && !at->second.bytes;
  }
  /// The copy serves from now on.
  void copied(std::uint64_t round, std::shared_ptr<const kept_bytes> bytes) {
    const auto at = states_.find(round);
    if (at == states_.end() || at->second.name.root != bytes->root()) return;
    giving_->read_from(round, kept_bytes::reader(bytes));
    at->second.bytes = std::move(bytes);
  }
  /// Whether a copy of it is given away, so that its offer need not be withdrawn with the memory.
  [[nodiscard]] bool has_copy(std::uint64_t round) const {
    const auto at = states_.find(round);
    return at != states_.end() && at->second.bytes;
  }

  /// The memory of the state of `round` is no longer what it was: without a copy it is not kept any more.
  void withdrawn(std::uint64_t round) {
    if (!needs_copy(round)) return;
    states_.erase(round);
    tidy();
  }

  /// `round` is committed, and this is the mean that made it out of the round before; nullptr: nothing was exchanged, the
  /// state is that of the round before.
  void add_mean(std::uint64_t round, std::shared_ptr<const kept_bytes> mean) {
    if (!any() || round < next_) return;
    if (round > next_) return clear();  // one is missing: nobody can go on from here
    const std::uint64_t size = mean ? mean->memory.size() : 0;
    if (mean) giving_->offer(round | mean_bit, mean->layout, mean->hashes, kept_bytes::reader(mean));
    means_.push_back({next_++, mean ? mean->root() : 0, size});
    bytes_ += size;
    if (bytes_ > most_bytes()) clear();
  }

  /// What is kept is of no use any more.
  void clear() {
    for (auto& [round, s] : states_) s.users.clear();
    tidy();
  }

 private:
  static constexpr std::size_t most_states = 2;

  struct kept_state {
    state_name name;
    std::uint64_t size = 0;
    std::set<net::peer_id> users;
    std::shared_ptr<const kept_bytes> bytes;  // none while the memory of the state itself serves
  };
  struct kept_mean {
    std::uint64_t round;
    std::uint64_t root;
    std::uint64_t bytes;
  };

  bool note_user(net::peer_id from, const state_name& what) {
    const auto at = states_.find(what.round);
    if (at != states_.end() && at->second.name == what) at->second.users.insert(from);
    if (at != states_.end()) return at->second.name == what;
    const bool next_in_line = states_.empty() || what.round + 1 == next_;
    if (!giving_->offers(what) || states_.size() >= most_states || !next_in_line) return false;
    if (states_.empty()) next_ = what.round + 1;
    states_[what.round] = {what, giving_->bytes_of(what), {from}, nullptr};
    return true;
  }

  void release(net::peer_id from, const state_name& what) {
    const auto at = states_.find(what.round);
    if (at == states_.end() || at->second.name != what) return;
    at->second.users.erase(from);
    tidy();
  }

  // Drops states without users, and means that no state needs.
  void tidy() {
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

  [[nodiscard]] std::uint64_t most_bytes() const {
    std::uint64_t most = 0;
    for (const auto& [round, s] : states_) most = std::max(most, s.size);
    return most;
  }

  [[nodiscard]] std::vector<std::byte> encode_means(std::uint64_t from) const {
    net::byte_writer out;
    for (const kept_mean& m : means_) {
      if (m.round >= from) out.put(m.round).put(m.root);
    }
    return std::move(out).take();
  }

  donor* giving_;
  transfer_effects* fx_;
  std::map<std::uint64_t, kept_state> states_;
  std::deque<kept_mean> means_;  // of the rounds after the oldest state, without a gap
  std::uint64_t next_ = 0;       // the round whose mean comes next
  std::uint64_t bytes_ = 0;      // of the means
};

/// The taking side: whom a state is kept by, and which means there are. Thread safety: none; the fabric's lock serves.
class kept_for_us {
 public:
  explicit kept_for_us(transfer_effects& fx) : fx_{&fx} {}

  /// Asks `holders` to keep `what` while it is fetched from here.
  void begin(const state_name& what, std::span<const net::peer_id> holders) {
    end();
    base_ = what;
    for (const net::peer_id id : holders) send(id, what.round + 1);
  }
  /// Asks for the means of the rounds from `round` on.
  void ask(std::uint64_t round) {
    answered_ = false;
    for (const net::peer_id id : keepers_) send(id, round);
  }
  /// They need not keep it any more.
  void end() {
    for (const net::peer_id id : std::exchange(keepers_, {})) send(id, every_index);
    roots_.clear();
    answered_ = false;
  }

  /// A message of the kinds means and gone.
  void message(net::peer_id from, const transfer_message& m) {
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
  void peer_down(net::peer_id peer) { keepers_.erase(peer); }

  [[nodiscard]] const state_name& base() const noexcept { return base_; }
  /// Somebody keeps it.
  [[nodiscard]] bool kept() const noexcept { return !keepers_.empty(); }
  [[nodiscard]] std::vector<net::peer_id> keepers() const { return {keepers_.begin(), keepers_.end()}; }
  /// Whether somebody answered since the last `ask`.
  [[nodiscard]] bool answered() const noexcept { return answered_; }
  /// The root of a round's mean; 0: the round exchanged nothing. None: not heard of.
  [[nodiscard]] std::optional<std::uint64_t> root_of(std::uint64_t round) const {
    const auto at = roots_.find(round);
    return at == roots_.end() ? std::nullopt : std::optional{at->second};
  }

 private:
  static constexpr std::size_t most_rounds = 65536;  // what a peer may make us remember

  void send(net::peer_id to, std::uint64_t index) {
    fx_->transfer_send(to, encode(transfer_message{.kind = transfer_kind::keep, .what = base_, .index = index}));
  }

  transfer_effects* fx_;
  state_name base_;
  std::set<net::peer_id> keepers_;
  std::map<std::uint64_t, std::uint64_t> roots_;
  bool answered_ = false;
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_CATCH_UP_HPP
