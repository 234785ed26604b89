// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/records.hpp>

#include "support/catch.hpp"

#include <causeway/core/rng.hpp>

#include <vector>

using namespace causeway;
using namespace causeway::membership;

namespace {

commit_record sample_record() {
  commit_record r;
  r.run = 1;
  r.round = 2;
  r.parent = 3;
  r.state = 4;
  r.at = {5, 6};
  r.members = {7, 8, 9};
  r.contributions = {{7, 100}, {9, 50}};
  r.returned = {10};
  r.ledger = 11;
  return r;
}

std::vector<std::byte> bytes_of(const commit_record& r) {
  net::byte_writer out;
  membership::detail::put_record(out, r, {{7, {}}, {9, {std::byte{1}, std::byte{2}}}}, {});
  return std::move(out).take();
}

}  // namespace

TEST_CASE("records: ballots order by term, then attempt, and so do their epochs on the wire", "[membership][fast]") {
  CHECK(ballot{1, 9} < ballot{2, 0});
  CHECK(ballot{2, 0} < ballot{2, 0}.next());
  CHECK(ballot{1, ballot::max_attempt}.wire() + 1 == ballot{2, 0}.wire());
  CHECK(ballot{ballot::max_term, ballot::max_attempt}.wire() == UINT32_MAX);
}

TEST_CASE("records: a majority is a quorum, and half of them with the first-named", "[membership][fast]") {
  const std::vector<net::peer_id> four{4, 3, 2, 1};
  CHECK(is_quorum(four, {1, 2, 3}));
  CHECK(is_quorum(four, {4, 1}));
  CHECK_FALSE(is_quorum(four, {3, 2}));
  CHECK_FALSE(is_quorum(four, {4, 9, 8, 7}));  // strangers do not count
  CHECK_FALSE(is_quorum(four, {4, 4, 4}));     // nobody counts twice
  CHECK(is_quorum(std::vector<net::peer_id>{5}, {5}));
  CHECK_FALSE(is_quorum({}, {}));
}

TEST_CASE("records: any two quorums have a peer in common", "[membership][fast]") {
  for (std::uint32_t n = 1; n <= 8; ++n) {
    std::vector<net::peer_id> members;
    for (std::uint32_t i = 0; i < n; ++i) members.push_back(100 - i);
    const auto chosen = [&](std::uint32_t bits) {
      std::vector<net::peer_id> peers;
      for (std::uint32_t i = 0; i < n; ++i) {
        if ((bits >> i & 1U) != 0) peers.push_back(members[i]);
      }
      return peers;
    };
    for (std::uint32_t a = 0; a < 1U << n; ++a) {
      const bool one = is_quorum(members, chosen(a));
      CHECK(one != is_quorum(members, chosen(~a & ((1U << n) - 1))));  // of a set and the rest exactly one decides
    }
  }
}

TEST_CASE("records: a record is read back as it was written, and its chain value names all of it", "[membership][fast]") {
  const commit_record r = sample_record();
  const auto bytes = bytes_of(r);
  net::byte_reader in{bytes};
  const auto back = membership::detail::get_record(in, {});
  REQUIRE(back);
  CHECK(back->record == r);
  CHECK(back->votes == certificate{{7, {}}, {9, {std::byte{1}, std::byte{2}}}});
  CHECK(in.finish("record"));

  std::vector<commit_record> others(9, r);
  ++others[0].run;
  ++others[1].round;
  ++others[2].parent;
  ++others[3].state;
  ++others[4].at.attempt;
  others[5].members.pop_back();
  ++others[6].contributions[1].samples;
  others[7].returned.push_back(12);
  ++others[8].ledger;
  for (const commit_record& o : others) CHECK(o.chain() != r.chain());
}

TEST_CASE("records: no prefix of a record is a record, and counts are not believed", "[membership][fast]") {
  const auto bytes = bytes_of(sample_record());
  for (std::size_t keep = 0; keep < bytes.size(); ++keep) {
    net::byte_reader in{std::span{bytes}.first(keep)};
    (void)membership::detail::get_record(in, {});
    CHECK_FALSE(in.finish("record"));
  }
}

TEST_CASE("records: the next record of a thousand members takes few bytes, and names the one it differs from",
          "[membership][fast]") {
  commit_record before = sample_record();
  before.members.clear();
  for (net::peer_id id = 1; id <= 1000; ++id) before.members.push_back(id);
  const membership::detail::base_record base{&before, before.chain()};
  commit_record next = before;
  next.round = before.round + 1;
  next.parent = base.chain;
  next.contributions.clear();
  certificate votes;
  for (const net::peer_id id : next.members) {
    next.contributions.push_back({id, 640});
    votes.push_back({id, {}});
  }
  net::byte_writer out;
  membership::detail::put_record(out, next, votes, base);
  CHECK(out.bytes().size() < 200);
  net::byte_reader in{out.bytes()};
  const auto back = membership::detail::get_record(in, base);
  REQUIRE(back);
  CHECK(back->record == next);
  CHECK(back->votes == votes);
  net::byte_reader other{out.bytes()};
  CHECK_FALSE(membership::detail::get_record(other, {}));
  CHECK(other.finish("record"));
}

TEST_CASE("records: readers survive any damage", "[membership][fast]") {
  const auto good = bytes_of(sample_record());
  rng draw{3};
  for (int i = 0; i < 20000; ++i) {
    auto bytes = good;
    for (std::uint64_t k = draw.below(4) + 1; k > 0; --k)
      bytes[draw.below(bytes.size())] = static_cast<std::byte>(draw.below(256));
    bytes.resize(draw.below(bytes.size() + 1));
    net::byte_reader in{bytes};
    const auto r = membership::detail::get_record(in, {});
    if (r) CHECK(r->record.members.size() <= bytes.size() / 32);
  }
}

TEST_CASE("records: a view knows ranks and weights", "[membership][fast]") {
  view v;
  v.at = {1, 2};
  v.members = {{30, "a:1", 5}, {10, "b:2", 0}, {20, "c:3", 7}};
  CHECK(v.rank_of(10) == 1);
  CHECK_FALSE(v.rank_of(11));
  CHECK(v.total() == 12);
}
