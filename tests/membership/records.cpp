// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/records.hpp>

#include <causeway/core/rng.hpp>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::membership;

namespace {

commit_record sample_record() {
  commit_record r;
  r.run = 7;
  r.round = 3;
  r.parent = 11;
  r.state = 12;
  r.at = {4, 5};
  r.members = {1, 2, 3};
  r.contributions = {{1, 6}, {3, 4}};
  r.returned = {9};
  r.ledger = 13;
  return r;
}

}  // namespace

TEST_CASE("records: any two quorums of the same members have a peer in common", "[membership][fast]") {
  for (std::size_t n = 1; n <= 7; ++n) {
    std::vector<net::peer_id> members;
    for (std::size_t i = 0; i < n; ++i) members.push_back(10 + i);
    std::vector<std::uint32_t> quorums;
    for (std::uint32_t mask = 0; mask < (1U << n); ++mask) {
      std::vector<net::peer_id> voters{99};  // a stranger never counts
      for (std::size_t i = 0; i < n; ++i) {
        if ((mask >> i & 1U) != 0) voters.push_back(members[i]);
      }
      if (is_quorum(members, voters)) quorums.push_back(mask);
    }
    CHECK(!quorums.empty());
    for (const auto a : quorums) {
      for (const auto b : quorums) CHECK((a & b) != 0);
    }
  }
  CHECK(!is_quorum({}, {1}));
}

TEST_CASE("records: exactly half is a quorum with the first-named member only", "[membership][fast]") {
  const std::vector<net::peer_id> members{5, 6};
  CHECK(is_quorum(members, {5}));
  CHECK(!is_quorum(members, {6}));
}

TEST_CASE("records: bytes and back, and every byte of a record is in its chain", "[membership][fast]") {
  const commit_record r = sample_record();
  net::byte_writer out;
  write(out, r);
  std::vector<std::byte> bytes{out.bytes().begin(), out.bytes().end()};
  net::byte_reader in{bytes};
  CHECK(read_commit_record(in) == r);
  CHECK(in.finish("record"));
  commit_record other = r;
  other.parent = 10;
  CHECK(other.chain() != r.chain());
  other = r;
  other.contributions[1].samples = 5;
  CHECK(other.chain() != r.chain());
}

TEST_CASE("records: a cut or damaged record is refused, and costs no more memory than its bytes", "[membership][fast]") {
  net::byte_writer out;
  write(out, sample_record());
  const std::vector<std::byte> whole{out.bytes().begin(), out.bytes().end()};
  for (std::size_t length = 0; length < whole.size(); ++length) {
    net::byte_reader in{std::span{whole}.first(length)};
    (void)read_commit_record(in);
    CHECK(!in.finish("record"));
  }
  rng random{1};
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::byte> bytes = whole;
    bytes[random.below(bytes.size())] ^= static_cast<std::byte>(1 + random.below(255));
    net::byte_reader in{bytes};
    (void)read_commit_record(in);
  }
}

TEST_CASE("records: ballots order by term, then attempt, and so do their epochs on the wire", "[membership][fast]") {
  CHECK(ballot{1, 9} < ballot{2, 0});
  CHECK(ballot{1, 9}.wire() < ballot{2, 0}.wire());
  CHECK(ballot{1, 9}.next().wire() == ballot{1, 9}.wire() + 1);
}
