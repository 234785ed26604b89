// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_MIRROR_RECORD_HPP
#define CAUSEWAY_COMM_MIRROR_RECORD_HPP

// Who is counted up to where, for comm::mirrors among peers that come and go. In the exchange of a record of the membership
// everybody gives what it has computed by itself since the last one. Who is not there any more is counted as far as
// somebody has heard of it, who gives that, too; and all note how far that was: who comes back knows what of its own is in
// the parameters already.

#include <causeway/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// Of peers that were not there when they were counted: how many of their updates. Alike on all peers. Fixed in size: where
/// too many are gone, those who went first are forgotten.
class counted_senders {
 public:
  static constexpr std::size_t most = 64;
  static constexpr std::uint64_t unknown = UINT64_MAX;

  CAUSEWAY_DECL counted_senders();

  CAUSEWAY_DECL void forget(std::uint64_t peer);
  CAUSEWAY_DECL void note(std::uint64_t peer, std::uint64_t record, std::uint64_t updates);
  /// How many of the updates that a peer has told since a record; `unknown`: it was forgotten.
  CAUSEWAY_DECL [[nodiscard]] std::uint64_t of(std::uint64_t peer, std::uint64_t record) const;

  void serialize(auto& ar) { ar(entries_, forgotten_); }

 private:
  std::vector<std::uint64_t> entries_;  ///< three numbers each: a peer, a record or 0 where it is free, updates
  std::uint64_t forgotten_ = 0;         ///< the newest record of an entry that was overwritten
};

/// What one peer has heard, and told, since the last record that it was in.
class mirror_record {
 public:
  /// A record: it is named so, and these peers were in it, this one as the `self`th.
  CAUSEWAY_DECL void begin(std::uint64_t record, std::vector<std::uint64_t> peers, std::size_t self);
  CAUSEWAY_DECL void end();
  /// From now on it is among these. What others told who are none of them is dropped; this peer's own stays its own.
  CAUSEWAY_DECL void regroup(std::vector<std::uint64_t> peers, std::size_t self);
  /// Names that record; 0: this peer was in none since it took the others' state over.
  [[nodiscard]] std::uint64_t name() const noexcept { return name_; }
  [[nodiscard]] std::size_t self() const noexcept { return self_; }
  /// The identity of one who was in it.
  [[nodiscard]] std::uint64_t peer(std::size_t sender) const { return peers_[sender]; }

  /// Updates that a sender has told: this peer, too.
  CAUSEWAY_DECL void keep(std::size_t sender, std::span<const std::byte> updates);
  CAUSEWAY_DECL [[nodiscard]] std::uint64_t count(std::size_t sender) const;
  /// `f(message)` for those that it has told from one on, the first being 0, up to another.
  void for_each(std::size_t sender, std::uint64_t begin, std::uint64_t end, auto&& f) const {
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      if (senders_[i] != sender || number++ < begin || number > end) continue;
      f(std::span<const std::byte>{messages_[i]});
    }
  }
  /// All but the first `count` are forgotten.
  CAUSEWAY_DECL void keep_first(std::size_t sender, std::uint64_t count);

  /// What this peer, which has taken so many inner steps and is in this region (`collective::region_label::own`), says to
  /// the others in the exchange of a record.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> claim(std::uint64_t steps, std::uint32_t region) const;
  [[nodiscard]] std::size_t peers() const noexcept { return peers_.size(); }
  void serialize(auto& ar) { ar(name_, self_, peers_, senders_, messages_); }

  static constexpr std::size_t most_senders = 4096;  ///< as membership::max_members
  static constexpr std::size_t most_claim_bytes = (3 + 2 * most_senders) * sizeof(std::uint64_t);

 private:
  std::uint64_t name_ = 0;
  std::uint64_t self_ = 0;
  std::vector<std::uint64_t> peers_;
  std::vector<std::uint64_t> senders_;  ///< of the messages
  std::vector<std::vector<std::byte>> messages_;
};

/// What the claims of all peers come to, alike on all of them.
struct mirror_tally {
  std::uint64_t record = 0;               ///< names the one since which those talk who do; 0: nobody does
  std::vector<std::uint64_t> steps{};     ///< inner steps that each peer has taken
  std::vector<std::uint32_t> regions{};   ///< that each says that it is in
  std::vector<std::uint64_t> lost{};      ///< identities of those of that record who are not there, or begin anew
  std::vector<std::uint64_t> senders{};   ///< their places in it
  std::vector<std::uint64_t> updates{};   ///< how many of them somebody has heard
  std::vector<std::uint64_t> heard_by{};  ///< who has heard so many, the first of those

  /// In the exchange `now` of the peers `present`, in the order of their claims: nobody can talk since a later record.
  CAUSEWAY_DECL static result<mirror_tally> of(const std::vector<std::vector<std::byte>>& claims,
                                               const std::vector<std::uint64_t>& present, std::uint64_t now);

  /// Who is lost is counted; who is `present` knows what is.
  CAUSEWAY_DECL void note(counted_senders& counted, const std::vector<std::uint64_t>& present) const;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/comm/impl/mirror_record.ipp>
#endif

#endif  // CAUSEWAY_COMM_MIRROR_RECORD_HPP
