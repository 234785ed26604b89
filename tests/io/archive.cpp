// SPDX-License-Identifier: Apache-2.0
#include <causeway/io/archive.hpp>

#include <causeway/core/rng.hpp>

#include "support/catch.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cw = causeway;
namespace io = causeway::io;

namespace {

enum class mood : std::uint8_t { calm, eager };

struct state {
  std::uint64_t step = 0;
  double loss = 0;
  mood how = mood::calm;
  std::string name;
  std::vector<float> moments;
  cw::rng random{1, 2};

  template <class Archive>
  void serialize(Archive& ar) {
    ar(step, loss, how, name, moments, random);
  }
  friend bool operator==(const state&, const state&) = default;
};

struct small {
  std::uint16_t a = 0x0102;
  std::vector<std::uint8_t> b{7, 9};

  void serialize(auto& ar) { ar(a, b); }
};

state example() {
  state s{12, 3.25, mood::eager, "päivä", {1.0F, -0.0F, 1e-40F}};
  (void)s.random.next();
  return s;
}

}  // namespace

TEST_CASE("archive: a state comes back bit for bit", "[io][fast]") {
  const state before = example();
  const auto bytes = io::to_bytes(before);
  REQUIRE(bytes);
  state after;
  REQUIRE(io::from_bytes(*bytes, after));
  CHECK(after == before);
  CHECK(std::signbit(after.moments[1]));
  CHECK(io::to_bytes(after).value() == *bytes);
}

TEST_CASE("archive: every truncation is an error, not an exception", "[io][fast]") {
  const auto bytes = io::to_bytes(example()).value();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    state after;
    const auto outcome = io::from_bytes(std::span{bytes}.first(length), after);
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == cw::errc::corrupt);
  }
}

TEST_CASE("archive: left-over bytes are an error that counts them", "[io][fast]") {
  auto bytes = io::to_bytes(example()).value();
  bytes.resize(bytes.size() + 3);
  state after;
  const auto outcome = io::from_bytes(bytes, after);
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().message.find("3 of ") != std::string::npos);
}

TEST_CASE("archive: bytes are the same on every machine", "[io][fast]") {
  const auto bytes = io::to_bytes(small{}).value();
  const std::vector<unsigned> expected{1, 2, 1, 2, 0, 0, 0, 0, 0, 0, 0, 7, 9};  // endianness, a, length of b, b
  std::vector<unsigned> got;
  for (const std::byte b : bytes) got.push_back(std::to_integer<unsigned>(b));
  CHECK(got == expected);
}

namespace {

struct containers {
  bool flag = true;
  std::array<std::int16_t, 2> pair_of{1, -2};
  std::array<std::string, 1> words{"one"};
  std::vector<bool> flags{true, false, true};
  std::vector<std::vector<float>> rows{{1.0F}, {}, {2.0F, 3.0F}};
  std::deque<small> queue{{}, {7, {1}}};
  std::map<std::string, std::uint64_t> counts{{"a", 1}, {"b", 2}};
  std::set<std::uint32_t> peers{3, 5};
  std::optional<double> none, some = 0.5;
  std::pair<mood, std::vector<std::string>> both{mood::eager, {"x", ""}};

  void serialize(auto& ar) { ar(flag, pair_of, words, flags, rows, queue, counts, peers, none, some, both); }
};

bool same(const containers& a, const containers& b) {
  return io::to_bytes(a).value() == io::to_bytes(b).value() && a.counts == b.counts && a.peers == b.peers &&
         a.some == b.some && a.none == b.none && a.rows == b.rows && a.both == b.both && a.flags == b.flags &&
         a.words == b.words;
}

}  // namespace

TEST_CASE("archive: containers come back, whatever was there before", "[io][fast]") {
  const containers before;
  containers after;
  after.rows.assign(5, {9.0F}), after.queue.clear(), after.counts = {{"c", 3}}, after.peers = {1}, after.none = 2.0;
  after.some.reset(), after.flags.clear(), after.words[0] = "other";
  REQUIRE(io::from_bytes(io::to_bytes(before).value(), after));
  CHECK(same(before, after));
}

TEST_CASE("archive: a count that no bytes back is refused before memory is taken", "[io][fast]") {
  const auto refused = [](auto value) {
    std::vector<std::byte> bytes(9, std::byte{0xFF});
    bytes[0] = std::byte{1};
    bytes[8] = std::byte{0x0F};
    const auto outcome = io::from_bytes(bytes, value);
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == cw::errc::corrupt);
    CHECK(outcome.error().message.find("counts more than there is") != std::string::npos);
  };
  refused(std::string{});
  refused(std::vector<double>{});
  refused(std::vector<std::string>{});
  refused(std::vector<bool>{});
  refused(std::map<int, int>{});
  refused(std::set<int>{});
  refused(std::deque<int>{});
}

TEST_CASE("archive: damaged bytes are read or refused, nothing else", "[io][fast]") {
  const auto bytes = io::to_bytes(containers{}).value();
  cw::rng random{5, 6};
  std::size_t refused = 0;
  for (int i = 0; i < 20000; ++i) {
    auto damaged = bytes;
    for (int flips = 0; flips < 3; ++flips) damaged[random.next() % damaged.size()] = static_cast<std::byte>(random.next());
    containers after;
    refused += io::from_bytes(damaged, after) ? 0 : 1;
  }
  CHECK(refused > 1000);
  CHECK(refused < 20000);
}
