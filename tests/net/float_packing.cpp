// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/float_packing.hpp>

#include <causeway/core/rng.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;

namespace {

std::vector<std::byte> bytes_of(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span{values});
  return {bytes.begin(), bytes.end()};
}

/// Empty where packing does not pay.
std::vector<std::byte> packed(const std::vector<std::byte>& in) {
  std::vector<std::byte> out(in.size());
  out.resize(net::pack_floats(in, out));
  return out;
}

/// The packed bytes' share; 1 where they are not packed. What is packed comes back.
double share(const std::vector<std::byte>& in) {
  const auto there = packed(in);
  if (there.empty()) return 1;
  std::vector<std::byte> back(in.size());
  REQUIRE(net::unpack_floats(there, back));
  REQUIRE(back == in);
  return static_cast<double>(there.size()) / static_cast<double>(in.size());
}

std::vector<float> normal(std::size_t count, float scale) {
  rng random{1};
  std::vector<float> values(count);
  for (float& v : values) v = scale * random.normal();
  return values;
}

std::vector<std::byte> noise(std::size_t size, std::uint64_t seed) {
  rng random{seed};
  std::vector<std::byte> bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.below(256));
  return bytes;
}

}  // namespace

TEST_CASE("float packing: parameters and moments take 80 to 84 % of their bytes, and come back as they were",
          "[net][fast]") {
  const auto values = normal(65536, 0.02F);
  CHECK(share(bytes_of(values)) == Approx(0.835).margin(0.01));
  std::vector<float> squares, scales = values;
  for (const float v : values) squares.push_back(v * v);
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] *= std::exp2(static_cast<float>(i / 4096) - 8.0F);
  CHECK(share(bytes_of(squares)) < 0.84);
  CHECK(share(bytes_of(scales)) < 0.9);
}

TEST_CASE("float packing: anything comes back, of any size", "[net][fast]") {
  for (std::size_t size = 0; size < 600; ++size) {
    auto bytes = bytes_of(normal(size / 4 + 1, 1.0F));
    bytes.resize(size);
    (void)share(bytes);
  }
  CHECK(share(std::vector<std::byte>(4096)) == Approx(0.75 + 0.03125 + 0.03125).margin(0.001));  // one code of a bit
  CHECK(share(noise(4096, 1)) == 1);
  std::vector<float> odd(1000, std::numeric_limits<float>::quiet_NaN());
  for (std::size_t i = 0; i < odd.size(); i += 3) odd[i] = i % 2 == 0 ? -std::numeric_limits<float>::infinity() : -0.0F;
  CHECK(share(bytes_of(odd)) < 1);
}

// Counts like Fibonacci's numbers give codes as long as they are many.
TEST_CASE("float packing: no code is longer than the table of who reads it", "[net][fast]") {
  std::vector<std::byte> bytes;
  std::size_t a = 1, b = 1;
  for (std::uint8_t symbol = 0; symbol < 24; ++symbol) {
    for (std::size_t i = 0; i < a; ++i)
      bytes.insert(bytes.end(), {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{symbol}});
    a = std::exchange(b, a + b);
  }
  CHECK(share(bytes) < 0.85);
}

TEST_CASE("float packing: foreign bytes are refused or become some values, and nothing else", "[net][fast]") {
  const auto in = bytes_of(normal(500, 1.0F));
  const auto good = packed(in);
  REQUIRE(!good.empty());
  std::vector<std::byte> out(in.size());
  for (std::size_t size = 0; size < good.size(); ++size) CHECK(!net::unpack_floats(std::span{good}.first(size), out));
  auto longer = good;
  longer.push_back(std::byte{0});
  CHECK(!net::unpack_floats(longer, out));
  std::size_t refused = 0;
  rng random{7};
  for (int i = 0; i < 20000; ++i) {
    auto bad = good;
    for (std::uint64_t flips = 1 + random.below(4); flips > 0; --flips) {
      bad[random.below(i % 2 == 0 ? 128 : bad.size())] ^= static_cast<std::byte>(1U << random.below(8));
    }
    refused += net::unpack_floats(bad, out) ? 0U : 1U;
  }
  CHECK(refused > 5000);
  for (std::uint64_t seed = 0; seed < 2000; ++seed) (void)net::unpack_floats(noise(100 + seed % 2000, seed), out);
  std::vector<std::byte> empty;
  CHECK(!net::unpack_floats(empty, empty));
}
