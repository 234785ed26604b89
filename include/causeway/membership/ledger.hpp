// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_LEDGER_HPP
#define CAUSEWAY_MEMBERSHIP_LEDGER_HPP

// Who trains on which samples, so that each is in exactly one commit. Samples are numbered 0, 1, 2, ...; every number is in
// one of four places: done, held by one peer, in the pool, or not handed out yet (from next() on). The ledger is a function
// of the commit records alone: whoever applied the same records has the same ledger.

#include <causeway/core/hash.hpp>
#include <causeway/membership/records.hpp>
#include <causeway/net/codec.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

/// The sample numbers first, first + 1, ..., first + count - 1.
struct sample_range {
  std::uint64_t first = 0;
  std::uint64_t count = 0;

  friend bool operator==(const sample_range&, const sample_range&) = default;
};

/// A regular value; not safe to share between threads.
class ledger {
 public:
  ledger() = default;
  /// `quota`: how many samples each member holds after a commit; 0: nobody holds any, contributions are only counted.
  /// `budget`: how many samples the run has; 0: no end.
  CAUSEWAY_DECL explicit ledger(std::uint64_t quota, std::uint64_t budget = 0);

  /// Whether the record can be applied: nobody contributes more than it holds, and each peer is named once.
  CAUSEWAY_DECL [[nodiscard]] bool fits(const commit_record& record) const;

  /// Consumes what was contributed, takes back what was returned, then tops up the members in their order to their share:
  /// from the pool, lowest first, then from next(). Precondition: fits(record). Cost: O(n log n).
  CAUSEWAY_DECL void apply(const commit_record& record);

  /// What a peer has to train on, in this order.
  CAUSEWAY_DECL [[nodiscard]] std::span<const sample_range> held(net::peer_id peer) const;

  CAUSEWAY_DECL [[nodiscard]] std::uint64_t held_count(net::peer_id peer) const;

  /// Up to `n` sample numbers of a peer, after its first `offset` ones.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::uint64_t> take(net::peer_id peer, std::uint64_t offset,
                                                              std::uint64_t n) const;

  /// How many samples each of `members` should hold: the quota, and near the end of the budget an equal part of what they
  /// hold and of what is left, so that the last samples do not wait for a few while the others have nothing to train.
  CAUSEWAY_DECL [[nodiscard]] std::uint64_t share(const std::vector<net::peer_id>& members) const;

  /// How many samples nobody holds and nobody has trained on. Without an end of the run: as many as anybody may want.
  CAUSEWAY_DECL [[nodiscard]] std::uint64_t left() const noexcept;

  /// Everybody who holds something, ascending.
  [[nodiscard]] const std::vector<net::peer_id>& holders() const noexcept { return held_.owners; }

  /// How many samples are in a commit.
  [[nodiscard]] std::uint64_t done() const noexcept { return done_; }
  /// Whether the whole budget is.
  [[nodiscard]] bool complete() const noexcept { return budget_ > 0 && done_ >= budget_; }
  /// Whether it will be, with so many samples more.
  [[nodiscard]] bool completed_by(std::uint64_t samples) const noexcept {
    return budget_ > 0 && samples >= budget_ - std::min(done_, budget_);
  }
  /// The lowest number that nobody ever held.
  [[nodiscard]] std::uint64_t next() const noexcept { return next_; }
  /// What was returned and not handed out again, ascending.
  [[nodiscard]] const std::vector<sample_range>& pool() const noexcept { return pool_; }
  [[nodiscard]] std::uint64_t quota() const noexcept { return quota_; }
  [[nodiscard]] std::uint64_t budget() const noexcept { return budget_; }

  /// Equal for equal ledgers on every machine.
  CAUSEWAY_DECL [[nodiscard]] std::uint64_t hash() const;

  /// What hash() names.
  CAUSEWAY_DECL void write_canonical(net::byte_writer& out) const;

  /// For the wire and the disk: holders as differences to `base`, which the reader knows (the members, usually).
  CAUSEWAY_DECL void encode(net::byte_writer& out, const std::vector<net::peer_id>& base) const;

  /// Reads a ledger; the reader has failed afterwards where the bytes hold none. Allocates no more than the input backs.
  CAUSEWAY_DECL static ledger decode(net::byte_reader& in, const std::vector<net::peer_id>& base);

  friend bool operator==(const ledger&, const ledger&) = default;

 private:
  using range_list = std::vector<sample_range>;

  CAUSEWAY_DECL static std::vector<net::peer_id> sorted(std::vector<net::peer_id> peers);

  CAUSEWAY_DECL static bool unique(std::vector<net::peer_id> peers);

  /// Who holds what, flat: thousands of peers are copied in one piece.
  struct holdings {
    std::vector<net::peer_id> owners;  ///< ascending
    std::vector<std::size_t> ends;     ///< of each owner's ranges
    range_list ranges;

    CAUSEWAY_DECL [[nodiscard]] std::span<const sample_range> of(std::size_t i) const;

    /// Behind all others: owners come in ascending order.
    CAUSEWAY_DECL void add(net::peer_id peer, const sample_range& r);

    friend bool operator==(const holdings&, const holdings&) = default;
  };

  struct draw {
    net::peer_id peer;
    sample_range got;
  };

  CAUSEWAY_DECL void tidy_pool();

  CAUSEWAY_DECL void top_up(const std::vector<net::peer_id>& members);

  /// At most `n` numbers: from the pool's lowest range that is not `used` up, else new ones.
  CAUSEWAY_DECL sample_range take_out(std::uint64_t n, std::size_t& used);

  CAUSEWAY_DECL static void append(range_list& to, const sample_range& r);

  CAUSEWAY_DECL static void write_ranges(net::byte_writer& out, std::span<const sample_range> list);

  CAUSEWAY_DECL static range_list read_ranges(net::byte_reader& in);

  /// Whether the places hold every number below next() exactly once: without this a forged ledger could overflow sums.
  CAUSEWAY_DECL [[nodiscard]] bool consistent() const;

  std::uint64_t quota_ = 0;
  std::uint64_t budget_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t next_ = 0;
  range_list pool_;
  holdings held_;
};

/// How many of the first `samples` that a peer held in `before`, and has trained on, it may still contribute under `after`:
/// all or none. None when they were committed or handed to somebody else meanwhile.
CAUSEWAY_DECL [[nodiscard]] std::uint64_t still_held(const ledger& before, const ledger& after, net::peer_id peer,
                                                     std::uint64_t samples);

namespace detail {

/// A ledger as a field of a message, as ledger::encode.
struct ledger_field {
  ledger& samples;
  const std::vector<net::peer_id>& base;

  void put(net::byte_writer& out) const { samples.encode(out, base); }
  void get(net::byte_reader& in) const { samples = ledger::decode(in, base); }
};

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/impl/ledger.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_LEDGER_HPP
