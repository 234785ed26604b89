// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_LEDGER_HPP
#define CAUSEWAY_MEMBERSHIP_LEDGER_HPP

// Who trains on which samples, so that each is in exactly one commit. Samples are numbered 0, 1, 2, ...; every number is in
// one of four places: done, held by one peer, in the pool, or not handed out yet (from next() on). The ledger is a function
// of the commit records alone: whoever applied the same records has the same ledger.

#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/membership/records.hpp>
#include <causeway/net/codec.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::membership {

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
  explicit ledger(std::uint64_t quota, std::uint64_t budget = 0) : quota_{quota}, budget_{budget} {}

  /// Whether the record can be applied: nobody contributes more than it holds, and each peer is named once.
  [[nodiscard]] bool fits(const commit_record& record) const {
    std::vector<net::peer_id> seen;
    std::uint64_t sum = done_;
    for (const contribution& c : record.contributions) {
      if (c.samples > (quota_ > 0 ? held_count(c.peer) : max_round_samples) || c.samples > UINT64_MAX - sum) return false;
      sum += c.samples;
      seen.push_back(c.peer);
    }
    return unique(std::move(seen)) && unique(record.members) && unique(record.returned);
  }

  /// Consumes what was contributed, takes back what was returned, then tops up the members in their order to their share:
  /// from the pool, lowest first, then from next(). Precondition: fits(record). Cost: O(n log n).
  void apply(const commit_record& record) {
    CAUSEWAY_EXPECT(fits(record));
    const holdings before = std::move(held_);
    held_ = {};
    std::vector<contribution> consumed = record.contributions;
    std::sort(consumed.begin(), consumed.end(), [](const auto& x, const auto& y) { return x.peer < y.peer; });
    std::vector<net::peer_id> returned = record.returned;
    std::sort(returned.begin(), returned.end());
    for (const contribution& c : consumed) done_ += c.samples;
    auto next = consumed.begin();
    for (std::size_t i = 0; i < before.owners.size(); ++i) {
      const net::peer_id peer = before.owners[i];
      while (next != consumed.end() && next->peer < peer) ++next;
      std::uint64_t skip = next != consumed.end() && next->peer == peer ? next->samples : 0;
      const bool back = std::binary_search(returned.begin(), returned.end(), peer);
      for (const sample_range& r : before.of(i)) {
        const std::uint64_t part = std::min(skip, r.count);
        skip -= part;
        const sample_range rest{r.first + part, r.count - part};
        if (rest.count > 0 && back) pool_.push_back(rest);
        if (rest.count > 0 && !back) held_.add(peer, rest);
      }
    }
    tidy_pool();
    top_up(record.members);
  }

  /// What a peer has to train on, in this order.
  [[nodiscard]] std::span<const sample_range> held(net::peer_id peer) const {
    const auto at = std::lower_bound(held_.owners.begin(), held_.owners.end(), peer);
    if (at == held_.owners.end() || *at != peer) return {};
    return held_.of(static_cast<std::size_t>(at - held_.owners.begin()));
  }

  [[nodiscard]] std::uint64_t held_count(net::peer_id peer) const {
    std::uint64_t sum = 0;
    for (const sample_range& r : held(peer)) sum += r.count;
    return sum;
  }

  /// Up to `n` sample numbers of a peer, after its first `offset` ones.
  [[nodiscard]] std::vector<std::uint64_t> take(net::peer_id peer, std::uint64_t offset, std::uint64_t n) const {
    std::vector<std::uint64_t> numbers;
    for (const sample_range& r : held(peer)) {
      for (std::uint64_t i = std::min(offset, r.count); i < r.count && numbers.size() < n; ++i) {
        numbers.push_back(r.first + i);
      }
      offset -= std::min(offset, r.count);
    }
    return numbers;
  }

  /// How many samples each of `members` should hold: the quota, and near the end of the budget an equal part of what they
  /// hold and of what is left, so that the last samples do not wait for a few while the others have nothing to train.
  [[nodiscard]] std::uint64_t share(const std::vector<net::peer_id>& members) const {
    if (budget_ == 0 || members.empty()) return quota_;
    std::uint64_t all = left();
    for (const net::peer_id peer : members) all += held_count(peer);
    return std::min<std::uint64_t>(quota_, (all + members.size() - 1) / members.size());
  }

  /// How many samples nobody holds and nobody has trained on. Without an end of the run: as many as anybody may want.
  [[nodiscard]] std::uint64_t left() const noexcept {
    if (budget_ == 0) return UINT64_MAX;
    std::uint64_t sum = budget_ - std::min(budget_, next_);
    for (const sample_range& r : pool_) sum += r.count;
    return sum;
  }

  /// Everybody who holds something, ascending.
  [[nodiscard]] const std::vector<net::peer_id>& holders() const noexcept { return held_.owners; }

  /// How many samples are in a commit.
  [[nodiscard]] std::uint64_t done() const noexcept { return done_; }
  /// Whether the whole budget is.
  [[nodiscard]] bool complete() const noexcept { return budget_ > 0 && done_ >= budget_; }
  /// The lowest number that nobody ever held.
  [[nodiscard]] std::uint64_t next() const noexcept { return next_; }
  /// What was returned and not handed out again, ascending.
  [[nodiscard]] const std::vector<sample_range>& pool() const noexcept { return pool_; }
  [[nodiscard]] std::uint64_t quota() const noexcept { return quota_; }
  [[nodiscard]] std::uint64_t budget() const noexcept { return budget_; }

  /// Equal for equal ledgers on every machine.
  [[nodiscard]] std::uint64_t hash() const {
    net::byte_writer out;
    write_canonical(out);
    return hash_bytes(out.bytes());
  }

  /// What hash() names.
  void write_canonical(net::byte_writer& out) const {
    out.put(quota_).put(budget_).put(done_).put(next_).put(static_cast<std::uint32_t>(pool_.size()));
    for (const sample_range& r : pool_) out.put(r.first).put(r.count);
    out.put(static_cast<std::uint32_t>(held_.owners.size()));
    for (std::size_t i = 0; i < held_.owners.size(); ++i) {
      detail::put_wide(out, held_.owners[i]);
      out.put(static_cast<std::uint32_t>(held_.of(i).size()));
      for (const sample_range& r : held_.of(i)) out.put(r.first).put(r.count);
    }
  }

  /// For the wire and the disk: holders as differences to `base`, which the reader knows (the members, usually).
  void encode(net::byte_writer& out, const std::vector<net::peer_id>& base) const {
    out.put(quota_).put(budget_).put(done_).put(next_);
    write_ranges(out, pool_);
    detail::put_list(out, held_.owners, sorted(base));
    for (std::size_t i = 0; i < held_.owners.size(); ++i) write_ranges(out, held_.of(i));
  }

  /// Reads a ledger; the reader has failed afterwards where the bytes hold none. Allocates no more than the input backs.
  static ledger decode(net::byte_reader& in, const std::vector<net::peer_id>& base) {
    ledger l;
    l.quota_ = in.get<std::uint64_t>();
    l.budget_ = in.get<std::uint64_t>();
    l.done_ = in.get<std::uint64_t>();
    l.next_ = in.get<std::uint64_t>();
    l.pool_ = read_ranges(in);
    const std::vector<net::peer_id> owners = detail::get_list(in, sorted(base), 16 * max_members);
    for (std::size_t i = 0; i < owners.size() && in.ok(); ++i) {
      if (i > 0 && owners[i] <= owners[i - 1]) in.refuse();
      const range_list mine = read_ranges(in);
      if (mine.empty()) in.refuse();
      for (const sample_range& r : mine) l.held_.add(owners[i], r);
    }
    if (!l.consistent()) in.refuse();
    return l;
  }

  friend bool operator==(const ledger&, const ledger&) = default;

 private:
  using range_list = std::vector<sample_range>;

  static std::vector<net::peer_id> sorted(std::vector<net::peer_id> peers) {
    std::sort(peers.begin(), peers.end());
    return peers;
  }

  static bool unique(std::vector<net::peer_id> peers) {
    std::sort(peers.begin(), peers.end());
    return std::adjacent_find(peers.begin(), peers.end()) == peers.end();
  }

  /// Who holds what, flat: thousands of peers are copied in one piece.
  struct holdings {
    std::vector<net::peer_id> owners;  ///< ascending
    std::vector<std::size_t> ends;     ///< of each owner's ranges
    range_list ranges;

    [[nodiscard]] std::span<const sample_range> of(std::size_t i) const {
      const std::size_t begin = i == 0 ? 0 : ends[i - 1];
      return std::span{ranges}.subspan(begin, ends[i] - begin);
    }

    /// Behind all others: owners come in ascending order.
    void add(net::peer_id peer, const sample_range& r) {
      const bool same = !owners.empty() && owners.back() == peer;
      if (!same) {
        owners.push_back(peer);
        ends.push_back(ranges.size());
      }
      if (same && ranges.back().first + ranges.back().count == r.first) {
        ranges.back().count += r.count;
      } else {
        ranges.push_back(r);
        ++ends.back();
      }
    }

    friend bool operator==(const holdings&, const holdings&) = default;
  };

  struct draw {
    net::peer_id peer;
    sample_range got;
  };

  void tidy_pool() {
    std::sort(pool_.begin(), pool_.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
    range_list joined;
    for (const sample_range& r : pool_) append(joined, r);
    pool_ = std::move(joined);
  }

  void top_up(const std::vector<net::peer_id>& members) {
    std::vector<draw> drawn;
    std::size_t used = 0;  // ranges of the pool
    const std::uint64_t wanted = share(members);
    for (const net::peer_id peer : members) {
      std::uint64_t have = held_count(peer);
      while (have < wanted) {
        const sample_range got = take_out(wanted - have, used);
        if (got.count == 0) break;
        drawn.push_back({peer, got});
        have += got.count;
      }
    }
    pool_.erase(pool_.begin(), pool_.begin() + static_cast<std::ptrdiff_t>(used));
    std::stable_sort(drawn.begin(), drawn.end(), [](const draw& x, const draw& y) { return x.peer < y.peer; });
    const holdings before = std::move(held_);
    held_ = {};
    auto next = drawn.begin();
    for (std::size_t i = 0; i < before.owners.size(); ++i) {
      for (; next != drawn.end() && next->peer < before.owners[i]; ++next) held_.add(next->peer, next->got);
      for (const sample_range& r : before.of(i)) held_.add(before.owners[i], r);
    }
    for (; next != drawn.end(); ++next) held_.add(next->peer, next->got);
  }

  /// At most `n` numbers: from the pool's lowest range that is not `used` up, else new ones.
  sample_range take_out(std::uint64_t n, std::size_t& used) {
    if (used == pool_.size()) {
      const std::uint64_t left = budget_ == 0 ? n : budget_ - std::min(budget_, next_);
      const sample_range got{next_, std::min(n, left)};
      next_ += got.count;
      return got;
    }
    sample_range& lowest = pool_[used];
    const sample_range got{lowest.first, std::min(n, lowest.count)};
    lowest.first += got.count;
    lowest.count -= got.count;
    if (lowest.count == 0) ++used;
    return got;
  }

  static void append(range_list& to, const sample_range& r) {
    if (!to.empty() && to.back().first + to.back().count == r.first) {
      to.back().count += r.count;
    } else {
      to.push_back(r);
    }
  }

  static void write_ranges(net::byte_writer& out, std::span<const sample_range> list) {
    detail::put_varint(out, list.size());
    for (const sample_range& r : list) {
      detail::put_varint(out, r.first);
      detail::put_varint(out, r.count);
    }
  }

  static range_list read_ranges(net::byte_reader& in) {
    const std::uint64_t count = detail::get_varint(in);
    if (count > in.remaining() / 2) in.refuse();
    range_list list(in.ok() ? count : 0);
    for (sample_range& r : list) {
      r.first = detail::get_varint(in);
      r.count = detail::get_varint(in);
    }
    return list;
  }

  /// Whether the places hold every number below next() exactly once: without this a forged ledger could overflow sums.
  [[nodiscard]] bool consistent() const {
    range_list all = pool_;
    all.insert(all.end(), held_.ranges.begin(), held_.ranges.end());
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::uint64_t outstanding = 0;
    std::uint64_t end = 0;
    for (const sample_range& r : all) {
      if (r.first < end || r.first > next_ || r.count == 0 || r.count > next_ - r.first) return false;
      end = r.first + r.count;
      outstanding += r.count;
    }
    if (budget_ > 0 && next_ > budget_) return false;
    return quota_ == 0 ? all.empty() && next_ == 0 : outstanding + done_ == next_;
  }

  std::uint64_t quota_ = 0;
  std::uint64_t budget_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t next_ = 0;
  range_list pool_;
  holdings held_;
};

/// How many of the first `samples` that a peer held in `before`, and has trained on, it may still contribute under `after`:
/// all or none. None when they were committed or handed to somebody else meanwhile.
[[nodiscard]] inline std::uint64_t still_held(const ledger& before, const ledger& after, net::peer_id peer,
                                              std::uint64_t samples) {
  if (before.quota() == 0) return samples;
  return before.take(peer, 0, samples) == after.take(peer, 0, samples) ? samples : 0;
}

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_LEDGER_HPP
