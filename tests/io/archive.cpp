// SPDX-License-Identifier: Apache-2.0
#include <causeway/io/archive.hpp>

#include <causeway/core/rng.hpp>

#include "support/catch.hpp"

#include <cmath>
#include <cstdint>
#include <string>
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
