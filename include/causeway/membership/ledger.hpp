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
#include <map>
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
    for (const contribution& c : record.contributions) {
      if (quota_ > 0 && c.samples > held_count(c.peer)) return false;
      seen.push_back(c.peer);
    }
    return unique(std::move(seen)) && unique(record.members) && unique(record.returned);
  }

  /// Consumes what was contributed, takes back what was returned, then tops up the members in their order: from the pool,
  /// lowest first, then from next(). Precondition: fits(record).
  void apply(const commit_record& record) {
    CAUSEWAY_EXPECT(fits(record));
    for (const contribution& c : record.contributions) consume(c.peer, c.samples);
    for (const net::peer_id peer : record.returned) give_back(peer);
    for (const net::peer_id peer : record.members) top_up(peer);
  }

  /// What a peer has to train on, in this order.
  [[nodiscard]] std::span<const sample_range> held(net::peer_id peer) const {
    const auto at = held_.find(peer);
    return at == held_.end() ? std::span<const sample_range>{} : at->second;
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

  /// Everybody who holds something.
  [[nodiscard]] std::vector<net::peer_id> holders() const {
    std::vector<net::peer_id> peers;
    for (const auto& [peer, mine] : held_) peers.push_back(peer);
    return peers;
  }

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
    encode(out);
    return hash_bytes(out.bytes());
  }

  void encode(net::byte_writer& out) const {
    out.put(quota_).put(budget_).put(done_).put(next_);
    write_ranges(out, pool_);
    out.put(static_cast<std::uint32_t>(held_.size()));
    for (const auto& [peer, mine] : held_) {
      out.put(peer);
      write_ranges(out, mine);
    }
  }

  /// Reads a ledger; the reader has failed afterwards where the bytes hold none. Allocates no more than the input backs.
  static ledger decode(net::byte_reader& in) {
    ledger l;
    l.quota_ = in.get<std::uint64_t>();
    l.budget_ = in.get<std::uint64_t>();
    l.done_ = in.get<std::uint64_t>();
    l.next_ = in.get<std::uint64_t>();
    l.pool_ = read_ranges(in);
    const std::size_t count = detail::read_count(in, 16 * max_members, 12);
    for (std::size_t i = 0; i < count && in.ok(); ++i) {
      const auto peer = in.get<std::uint64_t>();
      l.held_[peer] = read_ranges(in);
    }
    if (!l.consistent()) in.refuse();
    return l;
  }

  friend bool operator==(const ledger&, const ledger&) = default;

 private:
  using range_list = std::vector<sample_range>;

  static bool unique(std::vector<net::peer_id> peers) {
    std::sort(peers.begin(), peers.end());
    return std::adjacent_find(peers.begin(), peers.end()) == peers.end();
  }

  void consume(net::peer_id peer, std::uint64_t n) {
    done_ += n;
    const auto at = held_.find(peer);
    if (at == held_.end()) return;
    range_list& mine = at->second;
    while (n > 0 && !mine.empty()) {
      sample_range& r = mine.front();
      const std::uint64_t part = std::min(n, r.count);
      r.first += part;
      r.count -= part;
      n -= part;
      if (r.count == 0) mine.erase(mine.begin());
    }
    if (mine.empty()) held_.erase(at);
  }

  void give_back(net::peer_id peer) {
    const auto at = held_.find(peer);
    if (at == held_.end()) return;
    pool_.insert(pool_.end(), at->second.begin(), at->second.end());
    held_.erase(at);
    std::sort(pool_.begin(), pool_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    range_list joined;
    for (const sample_range& r : pool_) append(joined, r);
    pool_ = std::move(joined);
  }

  void top_up(net::peer_id peer) {
    std::uint64_t have = held_count(peer);
    while (have < quota_) {
      const sample_range got = draw(quota_ - have);
      if (got.count == 0) return;
      append(held_[peer], got);
      have += got.count;
    }
  }

  /// At most `n` numbers: from the pool's lowest range, else new ones.
  sample_range draw(std::uint64_t n) {
    if (pool_.empty()) {
      const std::uint64_t left = budget_ == 0 ? n : budget_ - std::min(budget_, next_);
      const sample_range got{next_, std::min(n, left)};
      next_ += got.count;
      return got;
    }
    sample_range& lowest = pool_.front();
    const sample_range got{lowest.first, std::min(n, lowest.count)};
    lowest.first += got.count;
    lowest.count -= got.count;
    if (lowest.count == 0) pool_.erase(pool_.begin());
    return got;
  }

  static void append(range_list& to, const sample_range& r) {
    if (!to.empty() && to.back().first + to.back().count == r.first) {
      to.back().count += r.count;
    } else {
      to.push_back(r);
    }
  }

  static void write_ranges(net::byte_writer& out, const range_list& list) {
    out.put(static_cast<std::uint32_t>(list.size()));
    for (const sample_range& r : list) out.put(r.first).put(r.count);
  }

  static range_list read_ranges(net::byte_reader& in) {
    range_list list(detail::read_count(in, net::max_post_bytes / 16, 16));
    for (sample_range& r : list) {
      r.first = in.get<std::uint64_t>();
      r.count = in.get<std::uint64_t>();
    }
    return list;
  }

  /// Whether the places hold every number below next() exactly once: without this a forged ledger could overflow sums.
  [[nodiscard]] bool consistent() const {
    range_list all = pool_;
    for (const auto& [peer, mine] : held_) all.insert(all.end(), mine.begin(), mine.end());
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
  std::map<net::peer_id, range_list> held_;
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
