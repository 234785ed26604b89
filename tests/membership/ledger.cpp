// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/ledger.hpp>

#include "support/catch.hpp"

#include <causeway/core/rng.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

using namespace causeway;
using namespace causeway::membership;

namespace {

commit_record commit(std::vector<net::peer_id> members, std::vector<contribution> contributions = {},
                     std::vector<net::peer_id> returned = {}) {
  commit_record r;
  r.members = std::move(members);
  r.contributions = std::move(contributions);
  r.returned = std::move(returned);
  return r;
}

std::vector<sample_range> ranges(const ledger& l, net::peer_id peer) { return {l.held(peer).begin(), l.held(peer).end()}; }

/// The same rules, sample by sample, with sets instead of ranges.
struct plain_ledger {
  std::uint64_t quota, budget, next = 0;
  std::set<std::uint64_t> pool, done;
  std::map<net::peer_id, std::vector<std::uint64_t>> held;

  void apply(const commit_record& r) {
    for (const contribution& c : r.contributions) {
      auto& mine = held[c.peer];
      for (std::uint64_t i = 0; i < c.samples; ++i) REQUIRE(done.insert(mine[i]).second);
      mine.erase(mine.begin(), mine.begin() + static_cast<std::ptrdiff_t>(c.samples));
    }
    for (const net::peer_id p : r.returned) {
      pool.insert(held[p].begin(), held[p].end());
      held[p].clear();
    }
    std::uint64_t all = pool.size() + (budget - std::min(budget, next));
    for (const net::peer_id p : r.members) all += held[p].size();
    const std::uint64_t even = r.members.empty() ? 0 : (all + r.members.size() - 1) / r.members.size();
    const std::uint64_t share = budget == 0 ? quota : std::min(quota, even);
    for (const net::peer_id p : r.members) {
      while (held[p].size() < share) {
        if (!pool.empty()) {
          held[p].push_back(*pool.begin());
          pool.erase(pool.begin());
        } else if (budget == 0 || next < budget) {
          held[p].push_back(next++);
        } else {
          break;
        }
      }
    }
  }
};

}  // namespace

TEST_CASE("ledger: members are topped up in their order", "[membership][fast]") {
  ledger l{10};
  l.apply(commit({3, 1}));
  CHECK(ranges(l, 3) == std::vector<sample_range>{{0, 10}});
  CHECK(ranges(l, 1) == std::vector<sample_range>{{10, 10}});
  CHECK(l.next() == 20);
  l.apply(commit({1, 3}, {{3, 4}}));
  CHECK(ranges(l, 3) == std::vector<sample_range>{{4, 6}, {20, 4}});
  CHECK(l.done() == 4);
  CHECK(l.take(3, 5, 3) == std::vector<std::uint64_t>{9, 20, 21});
  CHECK(l.take(3, 99, 3).empty());
  CHECK(l.holders() == std::vector<net::peer_id>{1, 3});
}

TEST_CASE("ledger: what a lost peer held is handed out again first, lowest first", "[membership][fast]") {
  ledger l{10};
  l.apply(commit({1, 2, 3}));
  l.apply(commit({1, 3}, {{1, 3}, {2, 6}, {3, 1}}, {2}));  // 2 contributed, then was lost
  CHECK(l.held(2).empty());
  CHECK(ranges(l, 1) == std::vector<sample_range>{{3, 7}, {16, 3}});
  CHECK(ranges(l, 3) == std::vector<sample_range>{{21, 9}, {19, 1}});
  CHECK(l.pool().empty());
  CHECK(l.next() == 30);
}

TEST_CASE("ledger: a late peer keeps what it holds, though it is no member", "[membership][fast]") {
  ledger l{10};
  l.apply(commit({1, 2}));
  const ledger before = l;
  l.apply(commit({1}, {{1, 10}}));
  CHECK(ranges(l, 2) == std::vector<sample_range>{{10, 10}});
  CHECK(still_held(before, l, 2, 7) == 7);
  CHECK(still_held(before, l, 1, 7) == 0);  // committed meanwhile
  l.apply(commit({1}, {}, {2}));
  CHECK(still_held(before, l, 2, 7) == 0);  // handed back meanwhile
}

TEST_CASE("ledger: a budget ends the run exactly", "[membership][fast]") {
  ledger l{10, 25};
  l.apply(commit({1, 2, 3}));
  CHECK(l.held_count(3) == 7);
  CHECK(l.left() == 0);
  l.apply(commit({1, 2, 3}, {{1, 9}, {2, 9}}));
  CHECK_FALSE(l.complete());
  l.apply(commit({1, 2}, {}, {3}));
  CHECK(l.held_count(1) == 4);
  CHECK(l.held_count(2) == 3);
  l.apply(commit({1, 2}, {{1, 4}, {2, 3}}));
  CHECK(l.complete());
  CHECK(l.done() == 25);
  CHECK(l.holders().empty());
}

TEST_CASE("ledger: the last samples of a budget are shared evenly, and nobody is given more than the quota",
          "[membership][fast]") {
  ledger l{100, 1000};
  std::vector<net::peer_id> members;
  for (net::peer_id p = 1; p <= 8; ++p) members.push_back(p);
  l.apply(commit(members));
  CHECK(l.left() == 200);
  std::vector<contribution> all;
  for (const net::peer_id p : members) all.push_back({p, 100});
  all.pop_back();  // the last is late, and still holds its hundred
  l.apply(commit({1, 2, 3, 4, 5, 6, 7}, all));
  CHECK(l.left() == 0);
  for (net::peer_id p = 1; p <= 6; ++p) CHECK(l.held_count(p) == 29);
  CHECK(l.held_count(7) == 26);
  CHECK(l.share({1, 2, 8}) == 53);  // (29 + 29 + 100) / 3
  CHECK(ledger{100}.share({1}) == 100);
  CHECK(ledger{100}.left() == UINT64_MAX);
}

TEST_CASE("ledger: without a quota contributions are only counted", "[membership][fast]") {
  ledger l;
  l.apply(commit({1, 2}, {{1, 1000}, {2, 1}}));
  CHECK(l.done() == 1001);
  CHECK(l.holders().empty());
  CHECK(still_held(l, l, 1, 5) == 5);
}

TEST_CASE("ledger: records that cannot be are told apart", "[membership][fast]") {
  ledger l{10};
  l.apply(commit({1, 2}));
  CHECK(l.fits(commit({1, 2}, {{1, 10}})));
  CHECK_FALSE(l.fits(commit({1, 2}, {{1, 11}})));
  CHECK_FALSE(l.fits(commit({1, 2}, {{3, 1}})));
  CHECK_FALSE(l.fits(commit({1, 2}, {{1, 1}, {1, 1}})));
  CHECK_FALSE(l.fits(commit({1, 1})));
  CHECK_FALSE(l.fits(commit({1}, {}, {2, 2})));
}

TEST_CASE("ledger: in random histories every sample is done once, none is lost, holes are filled first",
          "[membership][fast]") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    rng draw{seed};
    const std::uint64_t quota = 1 + draw.below(12);
    const std::uint64_t budget = draw.below(2) == 0 ? 0 : 40 + draw.below(300);
    ledger l{quota, budget};
    plain_ledger plain{quota, budget, 0, {}, {}, {}};
    for (int round = 0; round < 60; ++round) {
      commit_record r;
      for (net::peer_id p = 1; p <= 6; ++p) {
        const std::uint64_t held = l.held_count(p);
        if (held > 0 && draw.below(3) > 0) r.contributions.push_back({p, draw.below(held + 1)});
        if (held > 0 && draw.below(6) == 0) r.returned.push_back(p);
        if (draw.below(4) > 0)
          r.members.insert(r.members.begin() + static_cast<std::ptrdiff_t>(draw.below(r.members.size() + 1)), p);
      }
      REQUIRE(l.fits(r));
      const auto pool_before = l.pool().empty() ? UINT64_MAX : l.pool().front().first;
      const std::uint64_t next_before = l.next();
      l.apply(r);
      plain.apply(r);
      if (l.next() > next_before) CHECK((pool_before == UINT64_MAX || l.pool().empty()));
      REQUIRE(l.done() == plain.done.size());
      REQUIRE(l.next() == plain.next);
      for (net::peer_id p = 1; p <= 6; ++p) REQUIRE(l.take(p, 0, UINT64_MAX) == plain.held[p]);
    }
    // Everybody finishes what it holds and what is in the pool, then nobody gets anything: every number was done, once.
    for (bool more = true; more;) {
      more = !l.pool().empty();
      commit_record last = commit(more ? std::vector<net::peer_id>{1} : std::vector<net::peer_id>{});
      for (const net::peer_id p : l.holders()) last.contributions.push_back({p, l.held_count(p)});
      l.apply(last);
      plain.apply(last);
    }
    REQUIRE(plain.done.size() == l.done());
    REQUIRE(l.done() == l.next());
    if (!plain.done.empty()) REQUIRE(*plain.done.rbegin() + 1 == plain.done.size());
  }
}

TEST_CASE("ledger: equal histories give equal hashes, and bytes read back are the same ledger", "[membership][fast]") {
  ledger a{7, 100};
  ledger b{7, 100};
  for (const auto& r : {commit({5, 2, 9}), commit({2, 9}, {{5, 3}, {2, 7}}, {5}), commit({9, 2, 4}, {{9, 1}})}) {
    a.apply(r);
    b.apply(r);
  }
  CHECK(a.hash() == b.hash());
  net::byte_writer out;
  a.encode(out, {3, 1});
  net::byte_reader in{out.bytes()};
  CHECK(ledger::decode(in, {3, 1}) == b);
  CHECK(in.finish("ledger"));
  b.apply(commit({9, 2, 4}));
  CHECK(a == b);  // everybody is topped up already
  b.apply(commit({9, 2, 4}, {{2, 1}}));
  CHECK(a.hash() != b.hash());
}

TEST_CASE("ledger: forged bytes are refused: gaps, overlaps, overflows", "[membership][fast]") {
  const auto read = [](std::uint64_t done, std::uint64_t next, std::vector<sample_range> mine) {
    net::byte_writer out;
    out.put(std::uint64_t{10}).put(std::uint64_t{0}).put(done).put(next);
    membership::detail::put_varint(out, 0);  // the pool
    membership::detail::put_list(out, std::vector<net::peer_id>{1}, {});
    membership::detail::put_varint(out, mine.size());
    for (const auto& r : mine) {
      membership::detail::put_varint(out, r.first);
      membership::detail::put_varint(out, r.count);
    }
    net::byte_reader in{out.bytes()};
    (void)ledger::decode(in, {});
    return in.finish("ledger").has_value();
  };
  CHECK(read(5, 15, {{5, 10}}));
  CHECK_FALSE(read(5, 16, {{5, 10}}));
  CHECK_FALSE(read(0, 15, {{0, 10}, {5, 10}}));
  CHECK_FALSE(read(5, 15, {{UINT64_MAX - 1, 10}}));
  CHECK_FALSE(read(5, 15, {{5, UINT64_MAX}}));
  CHECK_FALSE(read(15, 15, {}));
}

TEST_CASE("ledger: no sum of contributions overflows", "[membership][fast]") {
  for (const std::uint64_t quota : {std::uint64_t{0}, std::uint64_t{10}}) {
    ledger l{quota};
    commit_record r;
    r.members = {1, 2};
    l.apply(r);
    r.contributions = {{1, UINT64_MAX}};
    CHECK_FALSE(l.fits(r));
    r.contributions = {{1, max_round_samples + 1}};
    CHECK_FALSE(l.fits(r));
    r.contributions = {{1, 10}, {2, 10}};
    CHECK(l.fits(r));
  }
}
