// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_LEDGER_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_LEDGER_IPP

#include <causeway/membership/ledger.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

CAUSEWAY_DECL ledger::ledger(std::uint64_t quota, std::uint64_t budget) : quota_{quota}, budget_{budget} {}

CAUSEWAY_DECL bool ledger::fits(const commit_record& record) const {
  std::vector<net::peer_id> seen;
  std::uint64_t sum = done_;
  for (const contribution& c : record.contributions) {
    if (c.samples > (quota_ > 0 ? held_count(c.peer) : max_round_samples) || c.samples > UINT64_MAX - sum) return false;
    sum += c.samples;
    seen.push_back(c.peer);
  }
  return unique(std::move(seen)) && unique(record.members) && unique(record.returned);
}

CAUSEWAY_DECL void ledger::apply(const commit_record& record) {
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

CAUSEWAY_DECL std::span<const sample_range> ledger::held(net::peer_id peer) const {
  const auto at = std::lower_bound(held_.owners.begin(), held_.owners.end(), peer);
  if (at == held_.owners.end() || *at != peer) return {};
  return held_.of(static_cast<std::size_t>(at - held_.owners.begin()));
}

CAUSEWAY_DECL std::uint64_t ledger::held_count(net::peer_id peer) const {
  std::uint64_t sum = 0;
  for (const sample_range& r : held(peer)) sum += r.count;
  return sum;
}

CAUSEWAY_DECL std::vector<std::uint64_t> ledger::take(net::peer_id peer, std::uint64_t offset, std::uint64_t n) const {
  std::vector<std::uint64_t> numbers;
  for (const sample_range& r : held(peer)) {
    for (std::uint64_t i = std::min(offset, r.count); i < r.count && numbers.size() < n; ++i) {
      numbers.push_back(r.first + i);
    }
    offset -= std::min(offset, r.count);
  }
  return numbers;
}

CAUSEWAY_DECL std::uint64_t ledger::share(const std::vector<net::peer_id>& members) const {
  if (budget_ == 0 || members.empty()) return quota_;
  std::uint64_t all = left();
  for (const net::peer_id peer : members) all += held_count(peer);
  return std::min<std::uint64_t>(quota_, (all + members.size() - 1) / members.size());
}

CAUSEWAY_DECL std::uint64_t ledger::left() const noexcept {
  if (budget_ == 0) return UINT64_MAX;
  std::uint64_t sum = budget_ - std::min(budget_, next_);
  for (const sample_range& r : pool_) sum += r.count;
  return sum;
}

CAUSEWAY_DECL std::uint64_t ledger::hash() const {
  net::byte_writer out;
  write_canonical(out);
  return hash_bytes(out.bytes());
}

CAUSEWAY_DECL void ledger::write_canonical(net::byte_writer& out) const {
  out.put(quota_).put(budget_).put(done_).put(next_).put(static_cast<std::uint32_t>(pool_.size()));
  for (const sample_range& r : pool_) out.put(r.first).put(r.count);
  out.put(static_cast<std::uint32_t>(held_.owners.size()));
  for (std::size_t i = 0; i < held_.owners.size(); ++i) {
    detail::put_wide(out, held_.owners[i]);
    out.put(static_cast<std::uint32_t>(held_.of(i).size()));
    for (const sample_range& r : held_.of(i)) out.put(r.first).put(r.count);
  }
}

CAUSEWAY_DECL void ledger::encode(net::byte_writer& out, const std::vector<net::peer_id>& base) const {
  out.put(quota_).put(budget_).put(done_).put(next_);
  write_ranges(out, pool_);
  detail::put_list(out, held_.owners, sorted(base));
  for (std::size_t i = 0; i < held_.owners.size(); ++i) write_ranges(out, held_.of(i));
}

CAUSEWAY_DECL ledger ledger::decode(net::byte_reader& in, const std::vector<net::peer_id>& base) {
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

CAUSEWAY_DECL std::vector<net::peer_id> ledger::sorted(std::vector<net::peer_id> peers) {
  std::sort(peers.begin(), peers.end());
  return peers;
}

CAUSEWAY_DECL bool ledger::unique(std::vector<net::peer_id> peers) {
  std::sort(peers.begin(), peers.end());
  return std::adjacent_find(peers.begin(), peers.end()) == peers.end();
}

CAUSEWAY_DECL std::span<const sample_range> ledger::holdings::of(std::size_t i) const {
  const std::size_t begin = i == 0 ? 0 : ends[i - 1];
  return std::span{ranges}.subspan(begin, ends[i] - begin);
}

CAUSEWAY_DECL void ledger::holdings::add(net::peer_id peer, const sample_range& r) {
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

CAUSEWAY_DECL void ledger::tidy_pool() {
  std::sort(pool_.begin(), pool_.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
  range_list joined;
  for (const sample_range& r : pool_) append(joined, r);
  pool_ = std::move(joined);
}

CAUSEWAY_DECL void ledger::top_up(const std::vector<net::peer_id>& members) {
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

CAUSEWAY_DECL sample_range ledger::take_out(std::uint64_t n, std::size_t& used) {
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

CAUSEWAY_DECL void ledger::append(range_list& to, const sample_range& r) {
  if (!to.empty() && to.back().first + to.back().count == r.first) {
    to.back().count += r.count;
  } else {
    to.push_back(r);
  }
}

CAUSEWAY_DECL void ledger::write_ranges(net::byte_writer& out, std::span<const sample_range> list) {
  detail::put_varint(out, list.size());
  for (const sample_range& r : list) {
    detail::put_varint(out, r.first);
    detail::put_varint(out, r.count);
  }
}

CAUSEWAY_DECL auto ledger::read_ranges(net::byte_reader& in) -> range_list {
  const std::uint64_t count = detail::get_varint(in);
  if (count > in.remaining() / 2) in.refuse();
  range_list list(in.ok() ? count : 0);
  for (sample_range& r : list) {
    r.first = detail::get_varint(in);
    r.count = detail::get_varint(in);
  }
  return list;
}

CAUSEWAY_DECL bool ledger::consistent() const {
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

CAUSEWAY_DECL std::uint64_t still_held(const ledger& before, const ledger& after, net::peer_id peer,
                                       std::uint64_t samples) {
  if (before.quota() == 0) return samples;
  return before.take(peer, 0, samples) == after.take(peer, 0, samples) ? samples : 0;
}

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_LEDGER_IPP
