// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/mirror_record.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::comm::detail;
using ids = std::vector<std::uint64_t>;

namespace {

const std::array<std::byte, 3> some{};

/// Of a peer in a record of the peers 11, 12 and 13, which has heard so many updates of each.
mirror_record heard(std::uint64_t name, std::size_t self, const std::vector<std::size_t>& counts) {
  mirror_record r;
  r.begin(name, {11, 12, 13}, self);
  for (std::size_t sender = 0; sender < counts.size(); ++sender) {
    for (std::size_t i = 0; i < counts[sender]; ++i) r.keep(sender, std::span{some}.first(sender + 1));
  }
  return r;
}

}  // namespace

TEST_CASE("mirror record: a peer that is not there is counted as far as somebody has heard", "[comm][fast]") {
  const std::vector claims{heard(5, 0, {4, 3, 2}).claim(40, 0), heard(5, 2, {4, 3, 3}).claim(41, 7),
                           mirror_record{}.claim(0, UINT32_MAX)};
  const auto tally = mirror_tally::of(claims, ids{11, 13, 14}, 6);
  REQUIRE(tally);
  CHECK(tally->record == 5);
  CHECK(tally->regions == std::vector<std::uint32_t>{0, 7, UINT32_MAX});
  CHECK(tally->steps == ids{40, 41, 0});
  CHECK(tally->lost == ids{12});
  CHECK(tally->senders == ids{1});
  CHECK(tally->updates == ids{3});
  CHECK(tally->heard_by == ids{0});
}

TEST_CASE("mirror record: who has heard most gives what a lost peer told", "[comm][fast]") {
  const std::vector claims{heard(5, 0, {4, 1, 0}).claim(40, 0), heard(5, 2, {4, 3, 3}).claim(41, 0)};
  const auto tally = mirror_tally::of(claims, ids{11, 13}, 6);
  REQUIRE(tally);
  CHECK(tally->updates == ids{3});
  CHECK(tally->heard_by == ids{1});
  std::vector<std::size_t> sizes;
  heard(5, 2, {4, 3, 3}).for_each(1, 0, 2, [&](auto message) { sizes.push_back(message.size()); });
  CHECK(sizes == std::vector<std::size_t>{2, 2});
}

TEST_CASE("mirror record: one that begins anew has nothing of what it told before", "[comm][fast]") {
  const std::vector claims{heard(5, 0, {4, 3, 0}).claim(40, 0), mirror_record{}.claim(0, 0)};
  const auto tally = mirror_tally::of(claims, ids{11, 12}, 6);
  REQUIRE(tally);
  CHECK(tally->lost == ids{12});
  counted_senders counted;
  tally->note(counted, ids{11, 12});
  CHECK(counted.of(12, 5) == 0);
}

TEST_CASE("mirror record: nobody talks since a record that is still to come, and claims are looked at", "[comm][fast]") {
  const std::vector claims{heard(5, 0, {1, 1, 0}).claim(40, 0), heard(900, 1, {9, 9, 9}).claim(40, 0)};
  const auto tally = mirror_tally::of(claims, ids{11, 13}, 6);
  REQUIRE(tally);
  CHECK(tally->record == 5);
  CHECK(tally->heard_by == ids{0});
  CHECK_FALSE(mirror_tally::of({std::vector<std::byte>(15)}, ids{11}, 6));
  CHECK_FALSE(mirror_tally::of({std::vector<std::byte>(32)}, ids{11}, 6));
  const auto wrong = mirror_tally::of({heard(5, 0, {}).claim(1, 0), {}}, ids{11, 12}, 6);
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().culprit == 1);
}

TEST_CASE("mirror record: what is counted is known until the peer is back, or too many have gone", "[comm][fast]") {
  counted_senders counted;
  CHECK(counted.of(12, 5) == 0);
  counted.note(12, 5, 3);
  CHECK(counted.of(12, 5) == 3);
  CHECK(counted.of(12, 6) == 0);
  CHECK(counted.of(13, 5) == 0);
  for (std::uint64_t p = 0; p < counted_senders::most - 1; ++p) counted.note(100 + p, 6, 1);
  CHECK(counted.of(12, 5) == 3);
  counted.note(200, 6, 1);
  CHECK(counted.of(12, 5) == counted_senders::unknown);
  CHECK(counted.of(13, 6) == 0);
  counted.forget(200);
  CHECK(counted.of(200, 6) == 0);
}
