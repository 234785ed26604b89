// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/transfer/transfer_donor.hpp>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <numeric>
#include <span>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::membership;

namespace {

struct outbox final : transfer_effects {
  struct letter {
    net::peer_id to;
    std::vector<std::byte> bytes;
    [[nodiscard]] transfer_message read() const { return decode_transfer(bytes).value(); }
  };
  void transfer_send(net::peer_id to, std::vector<std::byte> message) override {
    letters.push_back({to, std::move(message)});
  }
  void transfer_wake_at(time_point) override { FAIL("a donor waits for nothing"); }

  letter next() {
    REQUIRE(!letters.empty());
    letter first = std::move(letters.front());
    letters.pop_front();
    return first;
  }
  std::deque<letter> letters;
};

constexpr std::size_t chunk = 64;

// A donor of 40 chunks of 64 bytes, that lets out 4 chunks per peer and 10 in all.
struct scene {
  scene() {
    std::iota(values.begin(), values.end(), std::uint64_t{0});
    image.add(std::as_writable_bytes(std::span{values}));
    name = {7, image.root()};
    giver.offer(7, image);
  }
  void ask(net::peer_id from, std::uint64_t index, transfer_kind kind = transfer_kind::ask_chunk) {
    (void)giver.message(from, {.kind = kind, .what = name, .index = index});
  }
  void receipt(net::peer_id from, std::uint64_t ticket) {
    (void)giver.message(from, {.kind = transfer_kind::receipt, .ticket = ticket});
  }

  std::vector<std::uint64_t> values = std::vector<std::uint64_t>(320);
  state_image image{chunk};
  state_name name;
  outbox out;
  donor giver{
      {.outstanding_per_peer = 4 * chunk, .outstanding_total = 10 * chunk, .max_queue = 20, .max_peers = 3, .seed = 5},
      out};
};

}  // namespace

TEST_CASE("donor: gives the chunks and the manifest of what it offers", "[membership][fast]") {
  scene s;
  s.ask(1, 3);
  const auto letter = s.out.next();
  const auto m = letter.read();
  CHECK(letter.to == 1);
  CHECK(m.kind == transfer_kind::chunk);
  CHECK(m.what == s.name);
  CHECK(m.index == 3);
  CHECK(hash_bytes(m.content) == s.image.chunk_hash(3));
  s.ask(1, 0, transfer_kind::ask_manifest);
  const auto head = decode_manifest_head(s.out.next().read().content);
  REQUIRE(head);
  CHECK(head->root() == s.name.root);
  s.ask(2, 1, transfer_kind::ask_manifest);
  const auto hashes = s.out.next();
  CHECK(hash_bytes(hashes.read().content) == digest_of(s.image.hashes()));
}

TEST_CASE("donor: the last chunk is as short as the state's end", "[membership][fast]") {
  outbox out;
  donor giver{{}, out};
  std::vector<std::uint8_t> values(100, 1);
  state_image image{64};
  image.add(std::as_writable_bytes(std::span{values}));
  const state_name name{1, image.root()};
  giver.offer(1, image);
  (void)giver.message(9, {.kind = transfer_kind::ask_chunk, .what = name, .index = 1});
  CHECK(out.next().read().content.size() == 36);
  CHECK(giver.message(9, {.kind = transfer_kind::ask_chunk, .what = name, .index = 2}).error().code == errc::protocol);
  CHECK(out.letters.empty());
  CHECK(giver.counted().malformed == 1);
}

TEST_CASE("donor: what it does not offer is gone, and it says what is newest", "[membership][fast]") {
  scene s;
  (void)s.giver.message(1, {.kind = transfer_kind::ask_chunk, .what = {6, s.name.root}});
  auto letter = s.out.next();
  CHECK(letter.read().kind == transfer_kind::gone);
  CHECK(letter.read().what == state_name{6, s.name.root});
  CHECK(letter.read().newest == 7);
  (void)s.giver.message(1, {.kind = transfer_kind::ask_manifest, .what = {7, s.name.root + 1}});
  CHECK(s.out.next().read().kind == transfer_kind::gone);
}

TEST_CASE("donor: a state that is withdrawn is gone for those who wait, told once", "[membership][fast]") {
  scene s;
  for (std::uint64_t i = 0; i < 9; ++i) s.ask(1, i);
  for (int i = 0; i < 4; ++i) CHECK(s.out.next().read().kind == transfer_kind::chunk);
  CHECK(s.out.letters.empty());
  s.giver.withdraw();
  CHECK(s.out.next().read().kind == transfer_kind::gone);
  CHECK(s.out.letters.empty());
  CHECK(!s.giver.offers(s.name));
  s.ask(1, 20);
  CHECK(s.out.next().read().kind == transfer_kind::gone);
}

TEST_CASE("donor: several rounds can be offered, each is withdrawn alone", "[membership][fast]") {
  scene s;
  auto more = s.values;
  more[0] = 99;
  state_image newer{chunk};
  newer.add(std::as_writable_bytes(std::span{more}));
  const state_name next{8, newer.root()};
  s.giver.offer(8, newer);
  CHECK((s.giver.offers(s.name) && s.giver.offers(next)));
  s.giver.withdraw(7);
  CHECK((!s.giver.offers(s.name) && s.giver.offers(next)));
  s.ask(1, 0);
  CHECK(s.out.next().read().newest == 8);
}

TEST_CASE("donor: a reader that fails makes the state gone", "[membership][fast]") {
  scene s;
  s.giver.offer(7, s.image.layout(), s.image.hashes(), [](std::size_t, std::span<std::byte>) { return false; });
  s.ask(1, 0);
  CHECK(s.out.next().read().kind == transfer_kind::gone);
  CHECK(s.giver.outstanding() == 0);
}

TEST_CASE("donor: lets out no more than was acknowledged makes room for", "[membership][fast]") {
  scene s;
  for (std::uint64_t i = 0; i < 12; ++i) s.ask(1, i);
  CHECK(s.out.letters.size() == 4);
  CHECK(s.giver.outstanding(1) == 4 * chunk);
  (void)s.out.next();
  const auto second = s.out.next();
  s.receipt(1, second.read().ticket);  // the second: the first has come too
  CHECK(s.out.letters.size() == 4);
  CHECK(s.giver.outstanding(1) == 4 * chunk);
  s.receipt(1, second.read().ticket);
  s.receipt(1, 12345);
  s.receipt(2, s.out.letters.front().read().ticket);  // somebody else's
  CHECK(s.giver.counted().unknown_tickets == 3);
  CHECK(s.out.letters.size() == 4);
}

TEST_CASE("donor: a connection that ends frees what was on its way", "[membership][fast]") {
  scene s;
  for (std::uint64_t i = 0; i < 12; ++i) s.ask(1, i);
  s.giver.peer_down(1);
  CHECK(s.giver.outstanding() == 0);
  s.out.letters.clear();
  for (std::uint64_t i = 0; i < 4; ++i) s.ask(1, i);
  CHECK(s.out.letters.size() == 4);
}

TEST_CASE("donor: what was cancelled is not sent", "[membership][fast]") {
  scene s;
  for (std::uint64_t i = 0; i < 12; ++i) s.ask(1, i);
  (void)s.giver.message(1, {.kind = transfer_kind::cancel, .what = s.name, .index = 4});
  const auto last = s.out.letters.back().read().ticket;
  s.out.letters.clear();
  s.receipt(1, last);
  CHECK(s.out.letters.front().read().index == 5);
  (void)s.giver.message(1, {.kind = transfer_kind::cancel, .what = s.name, .index = every_index});
  const auto end = s.out.letters.back().read().ticket;
  s.out.letters.clear();
  s.receipt(1, end);
  CHECK(s.out.letters.empty());
}

TEST_CASE("donor: a flood of requests is bounded, and others are served beside it", "[membership][fast]") {
  scene s;
  for (std::uint64_t i = 0; i < 100'000; ++i) s.ask(1, i % 60);
  CHECK(s.out.letters.size() == 4);
  CHECK(s.giver.counted().dropped > 60'000);
  for (std::uint64_t i = 0; i < 10; ++i) s.ask(2, i);
  CHECK(s.giver.outstanding(2) == 4 * chunk);
  for (std::uint64_t i = 0; i < 10; ++i) s.ask(3, i);
  CHECK(s.giver.outstanding(3) == 2 * chunk);  // all together have 10
  CHECK(s.giver.outstanding() == 10 * chunk);
  s.ask(4, 0);  // a fourth peer is one too many
  CHECK(s.giver.outstanding(4) == 0);
  CHECK(s.out.letters.size() == 10);
}

TEST_CASE("donor: who has nothing on its way gets a message even when the rest have all", "[membership][fast]") {
  outbox out;
  scene s;
  donor small{{.outstanding_per_peer = 4 * chunk, .outstanding_total = 4 * chunk}, out};
  small.offer(7, s.image);
  for (std::uint64_t i = 0; i < 10; ++i)
    (void)small.message(1, {.kind = transfer_kind::ask_chunk, .what = s.name, .index = i});
  for (std::uint64_t i = 0; i < 10; ++i)
    (void)small.message(2, {.kind = transfer_kind::ask_chunk, .what = s.name, .index = i});
  CHECK(small.outstanding(1) == 4 * chunk);
  CHECK(small.outstanding(2) == chunk);
}

TEST_CASE("donor: peers that wait are served in turn", "[membership][fast]") {
  outbox out;
  scene s;
  donor giver{{.outstanding_per_peer = 20 * chunk, .outstanding_total = 3 * chunk}, out};
  giver.offer(7, s.image);
  std::map<net::peer_id, unsigned> served;
  for (std::uint64_t i = 0; i < 30; ++i) {
    for (net::peer_id peer = 1; peer <= 3; ++peer) {
      (void)giver.message(peer, {.kind = transfer_kind::ask_chunk, .what = s.name, .index = i});
    }
  }
  for (int i = 0; i < 60; ++i) {  // everything that is sent arrives and is acknowledged, in the order of sending
    const auto letter = out.next();
    ++served[letter.to];
    (void)giver.message(letter.to, {.kind = transfer_kind::receipt, .ticket = letter.read().ticket});
  }
  for (net::peer_id peer = 1; peer <= 3; ++peer) CHECK(served[peer] == 20);
}
