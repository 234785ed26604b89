// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_CATCH_UP_HPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_CATCH_UP_HPP

// For transfers that take longer than a round. The giving side keeps a copy of the state that is being fetched, and what
// the rounds since have exchanged: the mean of each. The taking side, once it holds the old state, does those rounds again
// from their means. Both are known by the pair (round, root), as states are, and travel as they do.

#include <causeway/membership/state_image.hpp>
#include <causeway/membership/transfer/transfer_donor.hpp>
#include <causeway/membership/transfer/transfer_options.hpp>
#include <causeway/membership/transfer/transfer_wire.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

/// Bytes beside the memory that they are a copy of. Immutable once made.
struct kept_bytes {
  image_layout layout;
  std::vector<std::uint64_t> hashes;
  std::vector<std::byte> memory;

  /// Precondition: `image` is hashed. Cost: one copy of it.
  CAUSEWAY_DECL [[nodiscard]] static std::shared_ptr<const kept_bytes> copy_of(const state_image& image);

  [[nodiscard]] std::uint64_t root() const { return state_root(layout, digest_of(hashes)); }

  CAUSEWAY_DECL [[nodiscard]] static donor::chunk_reader reader(std::shared_ptr<const kept_bytes> from);
};

/// The giving side. Memory: at most two copies of the state, and as much again for the means of rounds: where these are
/// more than a state, whoever fetches it cannot catch up, and it is given up. Thread safety: none; the fabric's lock
/// serves.
class kept_states {
 public:
  /// Both must outlive this object.
  CAUSEWAY_DECL kept_states(donor& giving, transfer_effects& fx);

  /// A message of the kind keep.
  CAUSEWAY_DECL void message(net::peer_id from, const transfer_message& m);

  CAUSEWAY_DECL void peer_down(net::peer_id peer);

  /// Whether the means of rounds are to be added.
  [[nodiscard]] bool any() const noexcept { return !states_.empty(); }

  /// Whether the state of `round`, whose memory is about to change, is to be copied first: see copied.
  CAUSEWAY_DECL [[nodiscard]] bool needs_copy(std::uint64_t round) const;
  /// The copy serves from now on.
  CAUSEWAY_DECL void copied(std::uint64_t round, std::shared_ptr<const kept_bytes> bytes);
  /// Whether a copy of it is given away, so that its offer need not be withdrawn with the memory.
  CAUSEWAY_DECL [[nodiscard]] bool has_copy(std::uint64_t round) const;

  /// The memory of the state of `round` is no longer what it was: without a copy it is not kept any more.
  CAUSEWAY_DECL void withdrawn(std::uint64_t round);

  /// `round` is committed, and this is the mean that made it out of the round before; nullptr: nothing was exchanged, the
  /// state is that of the round before.
  CAUSEWAY_DECL void add_mean(std::uint64_t round, std::shared_ptr<const kept_bytes> mean);

  /// What is kept is of no use any more.
  CAUSEWAY_DECL void clear();

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

  CAUSEWAY_DECL bool note_user(net::peer_id from, const state_name& what);

  CAUSEWAY_DECL void release(net::peer_id from, const state_name& what);

  // Drops states without users, and means that no state needs.
  CAUSEWAY_DECL void tidy();

  CAUSEWAY_DECL [[nodiscard]] std::uint64_t most_bytes() const;

  CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> encode_means(std::uint64_t from) const;

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
  CAUSEWAY_DECL explicit kept_for_us(transfer_effects& fx);

  /// Asks `holders` to keep `what` while it is fetched from here.
  CAUSEWAY_DECL void begin(const state_name& what, std::span<const net::peer_id> holders);
  /// Asks for the means of the rounds from `round` on.
  CAUSEWAY_DECL void ask(std::uint64_t round);
  /// They need not keep it any more.
  CAUSEWAY_DECL void end();

  /// A message of the kinds means and gone.
  CAUSEWAY_DECL void message(net::peer_id from, const transfer_message& m);
  CAUSEWAY_DECL void peer_down(net::peer_id peer);

  [[nodiscard]] const state_name& base() const noexcept { return base_; }
  /// Somebody keeps it.
  [[nodiscard]] bool kept() const noexcept { return !keepers_.empty(); }
  CAUSEWAY_DECL [[nodiscard]] std::vector<net::peer_id> keepers() const;
  /// Whether somebody answered since the last `ask`.
  [[nodiscard]] bool answered() const noexcept { return answered_; }
  /// The root of a round's mean; 0: the round exchanged nothing. None: not heard of.
  CAUSEWAY_DECL [[nodiscard]] std::optional<std::uint64_t> root_of(std::uint64_t round) const;

 private:
  static constexpr std::size_t most_rounds = 65536;  // what a peer may make us remember

  CAUSEWAY_DECL void send(net::peer_id to, std::uint64_t index);

  transfer_effects* fx_;
  state_name base_;
  std::set<net::peer_id> keepers_;
  std::map<std::uint64_t, std::uint64_t> roots_;
  bool answered_ = false;
};

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/transfer/impl/transfer_catch_up.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_CATCH_UP_HPP
