// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/row_bits.hpp>

#include "stage/activation_checks.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace causeway;
using activation_checks::normal;
using stage::row_bits;

namespace {

template <unsigned Bits>
std::vector<std::byte> write(const row_bits<Bits>& codec, const std::vector<float>& values, unsigned threads = 1) {
  thread_pool pool{threads};
  std::vector<std::byte> bytes(codec.encoded_size());
  codec.encode(pool, values, bytes);
  return bytes;
}

template <unsigned Bits>
std::vector<float> round_trip(const row_bits<Bits>& codec, const std::vector<float>& values) {
  thread_pool pool{1};
  std::vector<float> back(values.size());
  REQUIRE(codec.decode(pool, write(codec, values), back));
  return back;
}

}  // namespace

TEMPLATE_TEST_CASE_SIG("row_bits: no row's error depends on another row", "[stage][fast]", ((unsigned B), B), 2, 3, 4, 8) {
  for (const std::int64_t width : {48, 37}) {  // rows in one message, and each in its own
    auto values = normal(static_cast<std::size_t>(3 * width), 1);
    for (std::int64_t i = 0; i < width; ++i) {
      values[static_cast<std::size_t>(i)] *= 1e6F;
      values[static_cast<std::size_t>(2 * width + i)] = 0;
    }
    const auto back = round_trip(row_bits<B>{3, width, {}}, values);
    const float steps = B == 2 ? 3.0F : static_cast<float>((1U << B) - 2);
    for (std::size_t row = 0; row < 3; ++row) {
      float most = 0, worst = 0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(width); ++i) {
        const std::size_t at = row * static_cast<std::size_t>(width) + i;
        most = std::max(most, std::abs(values[at]));
        worst = std::max(worst, std::abs(values[at] - back[at]));
      }
      REQUIRE(worst <= most / steps * 1.00001F);
      REQUIRE((row == 2) == (worst == 0));
    }
  }
}

TEST_CASE("row_bits: four bytes and Bits a value for each row", "[stage][fast]") {
  REQUIRE(row_bits<4>{10, 768, {}}.encoded_size() == 10 * (4 + 768 / 2));
  REQUIRE(row_bits<2>{10, 768, {.scales = compress::scale_format::bf16}}.encoded_size() == 10 * (2 + 768 / 4));
  REQUIRE(row_bits<3>{10, 37, {}}.encoded_size() == 10 * (4 + 14));  // 111 bits, and a byte for each row's rest
  REQUIRE(row_bits<4>{2, 65536 + 16, {}}.encoded_size() == 2 * (2 * 4 + 32768 + 8));
}

TEST_CASE("row_bits: decode_add gives the bits of decoding and adding", "[stage][fast]") {
  thread_pool pool{2};
  for (const std::int64_t width : {64, 50}) {
    const row_bits<4> codec{20, width, {}};
    const auto values = normal(static_cast<std::size_t>(20 * width), 2);
    auto sum = normal(values.size(), 3), expected = sum;
    const auto back = round_trip(codec, values);
    for (std::size_t i = 0; i < sum.size(); ++i) expected[i] += back[i];
    REQUIRE(codec.decode_add(pool, write(codec, values), sum));
    REQUIRE(activation_checks::same_bits(sum, expected));
  }
}

TEST_CASE("row_bits: the seed alone decides random rounding, and the mean of many is the value", "[stage][fast]") {
  const stage::row_bits_options random{.stochastic = true};
  const auto values = normal(16 * 64, 4);
  REQUIRE(write(row_bits<4>{16, 64, random, 7}, values) == write(row_bits<4>{16, 64, random, 7}, values, 3));
  REQUIRE(write(row_bits<4>{16, 64, random, 7}, values) != write(row_bits<4>{16, 64, random, 8}, values));
  std::vector<double> mean(values.size());
  constexpr int seeds = 400;
  for (int seed = 0; seed < seeds; ++seed) {
    const auto back = round_trip(row_bits<4>{16, 64, random, static_cast<std::uint64_t>(seed)}, values);
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += static_cast<double>(back[i]) / seeds;
  }
  double bias = 0;
  for (std::size_t i = 0; i < mean.size(); ++i) bias = std::max(bias, std::abs(mean[i] - static_cast<double>(values[i])));
  REQUIRE(bias < 0.06);  // a step is at most 3.5/7, the deviation of a mean of 400 half of that over 20
}

TEST_CASE("row_bits: wrong lengths and bytes of no encoder are refused", "[stage][fast]") {
  thread_pool pool{1};
  for (const std::int64_t width : {48, 37}) {
    const row_bits<4> codec{3, width, {}};
    auto bytes = write(codec, normal(static_cast<std::size_t>(3 * width), 5));
    std::vector<float> back(static_cast<std::size_t>(3 * width));
    bytes.pop_back();
    REQUIRE(codec.decode(pool, bytes, back).error().code == errc::protocol);
    bytes.push_back(std::byte{0});  // codes 0
    REQUIRE(codec.decode(pool, bytes, back).error().code == errc::corrupt);
    const float bad = INFINITY;
    std::memcpy(bytes.data(), &bad, 4);
    REQUIRE(codec.decode_add(pool, bytes, back).error().code == errc::non_finite);
  }
}
