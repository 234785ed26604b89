// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/durable_record.hpp>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::membership;

namespace {

durable_record sample() {
  durable_record r = fresh_record(7, 42);
  r.floor = {3, 1};
  r.promised_to = 8;
  r.samples = ledger{4, 40};
  commit_record newest;
  newest.run = 7;
  newest.members = {42, 8};
  r.samples.apply(newest);
  newest.ledger = r.samples.hash();
  r.newest = newest;
  commit_record value = newest;
  value.round = 1;
  r.accepted = acceptance{{3, 1}, value};
  r.others = {{8, "host:1"}};
  return r;
}

}  // namespace

TEST_CASE("durable record: bytes and back", "[membership][fast]") {
  CHECK(decode_durable_record(encode(sample())).value() == sample());
  const auto fresh = fresh_record(1, 2);
  CHECK(decode_durable_record(encode(fresh)).value() == fresh);
}

TEST_CASE("durable record: no flipped bit and no cut goes unnoticed", "[membership][fast]") {
  const auto whole = encode(sample());
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    auto bytes = whole;
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    CHECK(!decode_durable_record(bytes));
  }
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CHECK(!decode_durable_record(std::span{whole}.first(length)));
  }
}
