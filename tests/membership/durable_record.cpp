// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/durable_record.hpp>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::membership;

namespace {

durable_record full_record() {
  durable_record d = fresh_record(7, 8);
  d.floor = {3, 4};
  d.promised_to = 9;
  commit_record r;
  r.run = 7;
  r.round = 5;
  r.members = {8, 9};
  d.samples = ledger{10};
  d.samples.apply(r);
  r.ledger = d.samples.hash();
  d.newest = r;
  r.round = 6;
  d.accepted = acceptance{{3, 4}, r};
  d.others = {{9, "here:1"}, {10, "there:2"}};
  return d;
}

}  // namespace

TEST_CASE("durable record: what was stored is read back, also the one of a new peer", "[membership][fast]") {
  for (const durable_record& d : {full_record(), fresh_record(1, 2)}) {
    const auto back = decode_durable_record(encode(d));
    REQUIRE(back);
    CHECK(*back == d);
  }
}

TEST_CASE("durable record: every flipped bit and every cut is noticed", "[membership][fast]") {
  const auto good = encode(full_record());
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      auto bytes = good;
      bytes[i] ^= static_cast<std::byte>(1U << bit);
      REQUIRE_FALSE(decode_durable_record(bytes));
    }
    REQUIRE_FALSE(decode_durable_record(std::span{good}.first(i)));
  }
  auto longer = good;
  longer.push_back(std::byte{0});
  CHECK_FALSE(decode_durable_record(longer));
}

TEST_CASE("durable record: another file is named as such", "[membership][fast]") {
  net::byte_writer out;
  out.put(std::uint64_t{1}).put(std::uint64_t{2});
  out.put(hash_bytes(out.bytes()));
  const auto outcome = decode_durable_record(out.bytes());
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == errc::version_mismatch);
}
