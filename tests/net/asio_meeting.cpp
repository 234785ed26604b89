// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/asio_meeting.hpp>

#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

using namespace causeway;
using namespace causeway::net;
using namespace causeway::net::detail;

TEST_CASE("meeting: what is said is understood, and nothing shorter or longer is", "[net][fast]") {
  introduction who;
  who.id = 5;
  who.incarnation = 6;
  who.nonce = 7;
  who.streams = 64;
  who.chunk = min_chunk_bytes;
  who.host = "trainer.example.org";
  who.port = 5100;
  const auto bytes = who.encode();
  const auto got = introduction::decode(bytes);
  REQUIRE(got);
  CHECK(got->id == 5);
  CHECK(got->incarnation == 6);
  CHECK(got->nonce == 7);
  CHECK(got->streams == 64);
  CHECK(got->chunk == min_chunk_bytes);
  CHECK(got->host == who.host);
  CHECK(got->port == 5100);
  for (std::size_t n = 0; n < bytes.size(); ++n) CHECK_FALSE(introduction::decode(std::span{bytes}.first(n)));
  auto longer = bytes;
  longer.push_back({});
  CHECK_FALSE(introduction::decode(longer));

  const stream_request request{{1, 2, 3}, 4};
  const auto asked = stream_request::decode(request.encode());
  REQUIRE(asked);
  CHECK((asked->key == request.key));
  CHECK(asked->index == 4);
}

TEST_CASE("meeting: introductions that no peer would send are refused", "[net][fast]") {
  std::mt19937 random{3};
  const introduction good{.id = 1, .streams = 1, .chunk = 1U << 20U, .port = 1};
  REQUIRE(introduction::decode(good.encode()));
  for (int what = 0; what < 6; ++what) {
    introduction bad = good;
    if (what == 0) bad.id = 0;
    if (what == 1) bad.streams = 0;
    if (what == 2) bad.streams = most_data_streams + 1;
    if (what == 3) bad.chunk = min_chunk_bytes - 1;
    if (what == 4) bad.chunk = max_chunk_bytes + 1;
    if (what == 5) bad.port = 0;
    CAPTURE(what);
    const auto outcome = introduction::decode(bad.encode());
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == errc::protocol);
  }
  for (int round = 0; round < 10'000; ++round) {
    std::vector<std::byte> bytes(random() % 300);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    const auto outcome = introduction::decode(bytes);
    if (outcome) CHECK(outcome->host.size() <= 255);
  }
}

TEST_CASE("meeting: a new connection replaces only what the other side no longer has", "[net][fast]") {
  const standing none;
  const standing up{true, 500, 7};
  CHECK(may_replace(none, 500, {.last = 0, .alive = 0}));
  CHECK(may_replace(none, 500, {.last = 7, .alive = 1}));      // we lost it, it has not noticed
  CHECK(may_replace(up, 501, {.last = 0, .alive = 0}));        // a new program
  CHECK(may_replace(up, 500, {.last = 7, .alive = 0}));        // it lost it, we have not noticed
  CHECK_FALSE(may_replace(up, 500, {.last = 7, .alive = 1}));  // it has it
  CHECK_FALSE(may_replace(up, 500, {.last = 6, .alive = 0}));  // word of 7 is on its way
  CHECK_FALSE(may_replace(up, 500, {.last = 0, .alive = 0}));  // both dialled at once
}
