// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/transfer/transfer_catch_up.hpp>

#include <causeway/membership/transfer/transfer.hpp>

#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::membership;

namespace {

struct outbox final : transfer_effects {
  void transfer_send(net::peer_id to, std::vector<std::byte> message) override {
    bytes.push_back(std::move(message));
    letters.push_back({to, decode_transfer(bytes.back()).value()});
  }
  void transfer_wake_at(time_point) override {}
  [[nodiscard]] transfer_message last() const { return letters.back().second; }

  std::deque<std::vector<std::byte>> bytes;
  std::vector<std::pair<net::peer_id, transfer_message>> letters;
};

std::shared_ptr<const kept_bytes> mean_of(std::uint64_t seed, std::size_t words = 20) {
  std::vector<std::uint64_t> values(words, seed);
  state_image image{64};
  image.add(std::as_writable_bytes(std::span{values}));
  (void)image.root();
  return kept_bytes::copy_of(image);
}

// A donor of a state of 30 words, round 7.
struct scene {
  scene() {
    image.add(std::as_writable_bytes(std::span{values}));
    name = {7, image.root()};
    both.giving.offer(7, image);
  }
  void keep(net::peer_id from, state_name what, std::uint64_t index) {
    both.keeping.message(from, {.kind = transfer_kind::keep, .what = what, .index = index});
  }
  // The memory changes, and is offered as the next round.
  void next_round(std::uint64_t round) {
    if (both.keeping.needs_copy(round - 1)) both.keeping.copied(round - 1, kept_bytes::copy_of(image));
    both.keeping.withdrawn(round - 1);
    if (!both.keeping.has_copy(round - 1)) both.giving.withdraw(round - 1);
    for (auto& v : values) ++v;
    image.touch();
    (void)image.root();
    both.giving.offer(round, image);
  }

  std::vector<std::uint64_t> values = std::vector<std::uint64_t>(30);
  state_image image{64};
  state_name name;
  outbox out;
  state_transfer both{out};
};

}  // namespace

TEST_CASE("kept states: what is fetched stays as it was while rounds go on, and is dropped when nobody wants it",
          "[membership][fast]") {
  scene s;
  s.keep(1, s.name, 8);
  CHECK(s.out.last().kind == transfer_kind::means);
  CHECK(s.out.last().content.empty());
  s.next_round(8);
  s.both.keeping.add_mean(8, mean_of(8));
  s.both.keeping.add_mean(9, nullptr);
  REQUIRE(s.both.giving.offers(s.name));
  REQUIRE(s.both.message(1, encode(transfer_message{.kind = transfer_kind::ask_chunk, .what = s.name, .index = 1}), {}));
  REQUIRE(s.out.last().kind == transfer_kind::chunk);
  for (const std::byte b : s.out.last().content) CHECK(b == std::byte{0});

  kept_for_us us{s.out};
  us.begin(s.name, std::vector<net::peer_id>{5});
  s.keep(1, s.name, 8);
  us.message(5, s.out.last());
  CHECK(us.kept());
  REQUIRE(us.root_of(8));
  CHECK(s.both.giving.offers({8 | mean_bit, *us.root_of(8)}));
  CHECK(us.root_of(9) == std::uint64_t{0});
  CHECK_FALSE(us.root_of(10));

  s.keep(1, s.name, every_index);
  CHECK_FALSE(s.both.keeping.any());
  CHECK_FALSE(s.both.giving.offers(s.name));
  CHECK_FALSE(s.both.giving.offers({8 | mean_bit, mean_of(8)->root()}));
}

TEST_CASE("kept states: a peer that goes, a gap and too many means end it", "[membership][fast]") {
  scene gone;
  gone.keep(1, gone.name, 8);
  gone.next_round(8);
  gone.both.peer_down(1, {});
  CHECK_FALSE(gone.both.giving.offers(gone.name));

  scene gap;
  gap.keep(1, gap.name, 8);
  gap.next_round(8);
  gap.both.keeping.add_mean(9, mean_of(9));
  CHECK_FALSE(gap.both.keeping.any());

  scene many;
  many.keep(1, many.name, 8);
  many.next_round(8);
  many.both.keeping.add_mean(8, mean_of(8));
  CHECK(many.both.keeping.any());
  many.both.keeping.add_mean(9, mean_of(9));  // 40 words since, of a state of 30
  CHECK_FALSE(many.both.keeping.any());
  CHECK_FALSE(many.both.giving.offers(many.name));
  many.keep(1, many.name, 8);
  CHECK(many.out.last().kind == transfer_kind::gone);
}

TEST_CASE("kept states: what is not offered is gone, and a third is not kept", "[membership][fast]") {
  scene s;
  s.keep(1, {7, 1234}, 8);
  CHECK(s.out.last().kind == transfer_kind::gone);
  s.keep(1, s.name, 8);
  s.next_round(8);
  s.both.keeping.add_mean(8, nullptr);
  s.keep(2, {8, s.image.root()}, 9);
  CHECK(s.out.last().kind == transfer_kind::means);
  s.next_round(9);
  s.both.keeping.add_mean(9, nullptr);
  const auto letters = s.out.letters.size();
  s.keep(3, {9, s.image.root()}, 10);  // it may fetch it while it is offered
  CHECK(s.out.letters.size() == letters);
}

TEST_CASE("donor: while its lines are needed it gives one chunk at a time, and rests", "[membership][fast]") {
  scene s;
  const auto ask = [&](std::uint64_t chunk, time_point now) {
    return s.both.message(1, encode(transfer_message{.kind = transfer_kind::ask_chunk, .what = s.name, .index = chunk}),
                          now);
  };
  const auto acknowledge = [&](time_point now) {
    return s.both.message(1, encode(transfer_message{.kind = transfer_kind::receipt, .ticket = s.out.last().ticket}), now);
  };
  using std::chrono::seconds;
  s.both.giving.busy(true, time_point{});
  REQUIRE(ask(0, time_point{}));
  REQUIRE(ask(1, time_point{}));
  CHECK(s.out.letters.empty());
  const time_point first = s.both.giving.next_wake();
  REQUIRE(first < time_point{seconds{2}});
  s.both.wake(first);
  CHECK(s.out.letters.size() == 1);
  REQUIRE(acknowledge(first + seconds{1}));
  CHECK(s.out.letters.size() == 1);
  CHECK(s.both.giving.next_wake() >= first + seconds{20});
  s.both.giving.busy(false, first + seconds{2});
  CHECK(s.out.letters.size() == 2);
  CHECK(s.both.giving.next_wake() == no_deadline);
}
