// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/ledger.hpp>

#include <causeway/core/rng.hpp>

#include <map>
#include <set>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::membership;

TEST_CASE("ledger: whatever happens to peers, every sample is done exactly once", "[membership][fast]") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    rng random{seed};
    constexpr std::uint64_t budget = 400;
    ledger l{1 + random.below(12), budget};
    std::map<std::uint64_t, int> done;
    std::vector<net::peer_id> members{1};
    commit_record first;
    first.members = members;
    l.apply(first);
    for (int round = 0; round < 3000 && !l.complete(); ++round) {
      commit_record r;
      for (const net::peer_id peer : l.holders()) {
        const std::uint64_t n = random.below(l.held_count(peer) + 1);
        if (n == 0) continue;
        r.contributions.push_back({peer, n});
        for (const std::uint64_t s : l.take(peer, 0, n)) ++done[s];
      }
      for (net::peer_id peer = 1; peer <= 6; ++peer) {
        if (random.below(3) != 0) {
          r.members.push_back(peer);
        } else if (random.below(2) == 0) {
          r.returned.push_back(peer);
        }
      }
      if (r.members.empty()) r.members.push_back(1);
      REQUIRE(l.fits(r));
      l.apply(r);
    }
    REQUIRE(l.complete());
    CHECK(done.size() == budget);
    for (const auto& [sample, times] : done) REQUIRE(times == 1);
  }
}

TEST_CASE("ledger: what was returned is handed out first, lowest first", "[membership][fast]") {
  ledger l{4};
  commit_record r;
  r.members = {1, 2};
  l.apply(r);
  CHECK(l.take(1, 0, 10) == std::vector<std::uint64_t>{0, 1, 2, 3});
  CHECK(l.take(2, 1, 2) == std::vector<std::uint64_t>{5, 6});
  r.members = {2, 3};
  r.contributions = {{1, 1}};
  r.returned = {1};
  l.apply(r);
  CHECK(l.take(3, 0, 10) == std::vector<std::uint64_t>{1, 2, 3, 8});
  CHECK(l.done() == 1);
}

TEST_CASE("ledger: a record that contributes more than was held, or names somebody twice, does not fit",
          "[membership][fast]") {
  ledger l{4};
  commit_record r;
  r.members = {1};
  l.apply(r);
  r.contributions = {{1, 5}};
  CHECK(!l.fits(r));
  r.contributions = {{1, 2}, {1, 2}};
  CHECK(!l.fits(r));
  r.contributions.clear();
  r.members = {1, 1};
  CHECK(!l.fits(r));
}

TEST_CASE("ledger: bytes and back; forged bytes are refused", "[membership][fast]") {
  ledger l{5, 100};
  commit_record r;
  r.members = {1, 2, 3};
  l.apply(r);
  r.contributions = {{2, 3}};
  r.returned = {3};
  r.members = {1, 2};
  l.apply(r);
  net::byte_writer out;
  l.encode(out);
  const std::vector<std::byte> whole{out.bytes().begin(), out.bytes().end()};
  net::byte_reader in{whole};
  CHECK(ledger::decode(in) == l);
  CHECK(in.ok());
  rng random{3};
  int accepted = 0;
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::byte> bytes = whole;
    bytes[random.below(bytes.size())] ^= static_cast<std::byte>(1 + random.below(255));
    net::byte_reader forged{bytes};
    const ledger other = ledger::decode(forged);
    if (forged.ok() && other == l) ++accepted;
  }
  CHECK(accepted == 0);
}

TEST_CASE("ledger: progress counts only as long as its samples are still this peer's", "[membership][fast]") {
  ledger before{4};
  commit_record r;
  r.members = {1, 2};
  before.apply(r);
  ledger after = before;
  r.members = {2};
  after.apply(r);
  CHECK(still_held(before, after, 1, 3) == 3);
  r.returned = {1};
  ledger taken = before;
  taken.apply(r);
  CHECK(still_held(before, taken, 1, 3) == 0);
}
