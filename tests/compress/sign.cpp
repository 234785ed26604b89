// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/sign.hpp>

#include "compress/codec_checks.hpp"
#include "compress/heavy_tails.hpp"
#include "support/catch.hpp"

#include <cmath>

using namespace causeway;
using compress::sign;

namespace {

const sign unscaled{{.scaled = false}};

std::vector<float> round_trip(const sign& codec, const std::vector<float>& x) {
  thread_pool pool{1};
  std::vector<float> back(x.size());
  REQUIRE(codec.decode(pool, codec_checks::encode(codec, pool, x), back));
  return back;
}

errc decode_changed(const sign& codec, std::size_t at, std::initializer_list<int> bytes) {
  thread_pool pool{1};
  auto encoded = codec_checks::encode(codec, pool, codec_checks::values(20));
  for (const int b : bytes) encoded[at++] = static_cast<std::byte>(b);
  std::vector<float> room(20);
  const auto outcome = codec.decode(pool, encoded, room);
  REQUIRE_FALSE(outcome);
  return outcome.error().code;
}

}  // namespace

TEST_CASE("sign: the bytes are those of earlier versions", "[compress][fast]") {
  CHECK(codec_checks::checksum_of_bytes(compress::sign{}) == 0xC522D8C696BCE332U);
}

TEST_CASE("sign: with its scale it loses less than was put in, whatever the tails: a contraction", "[compress][fast]") {
  for (const auto& [name, draw] : heavy_tails::all()) {
    for (const std::size_t n : {1U, 2U, 50U, 1000U, 30000U}) {
      for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        INFO(name << ", " << n << " values, seed " << seed);
        const auto x = draw(n, seed);
        CHECK(heavy_tails::lost(x, round_trip(sign{}, x)) < 1.0);
      }
    }
  }
}

TEST_CASE("sign: mean magnitudes first, then one bit a value, set for minus", "[compress][fast]") {
  thread_pool pool{1};
  const std::vector<float> x{1.0F, -2.0F, 3.0F, -6.0F, 0.0F, -0.0F, 1.0F, 1.0F, -4.0F};  // magnitudes add up to 18
  CHECK(codec_checks::as_ints(codec_checks::encode(sign{}, pool, x)) == std::vector<int>{0, 0, 0, 0x40, 0b00101010, 1});
  CHECK(codec_checks::as_ints(codec_checks::encode(unscaled, pool, x)) == std::vector<int>{0, 0b00101010, 1});
  CHECK(round_trip(sign{}, x) == std::vector<float>{2, -2, 2, -2, 2, -2, 2, 2, -2});
  CHECK(round_trip(unscaled, x) == std::vector<float>{1, -1, 1, -1, 1, -1, 1, 1, -1});
}

TEST_CASE("sign: sizes follow the formula", "[compress][fast]") {
  CHECK(sign{}.encoded_size(0) == 0);
  CHECK(sign{}.encoded_size(1) == 5);
  CHECK(sign{}.encoded_size(1024) == 132);
  CHECK(sign{}.encoded_size(1025) == 8 + 129);
  CHECK(unscaled.encoded_size(0) == 0);
  CHECK(unscaled.encoded_size(9) == 3);
  CHECK(unscaled.encoded_size(1 << 20U) == (1 << 17U) + 1);
}

TEST_CASE("sign: the error of a bucket is what the l1 scale promises", "[compress][fast]") {
  const auto x = codec_checks::values(40000);
  const auto back = round_trip(sign{{.bucket = 4000}}, x);
  for (std::size_t start = 0; start < x.size(); start += 4000) {
    double l1 = 0, l2 = 0, error = 0;
    for (std::size_t i = start; i < start + 4000; ++i) {
      const auto v = static_cast<double>(x[i]);
      l1 += std::abs(v), l2 += v * v, error += std::pow(static_cast<double>(back[i]) - v, 2);
    }
    CHECK(error == Approx(l2 - l1 * l1 / 4000).epsilon(1e-5));
  }
}

TEST_CASE("sign: keeps what a codec promises", "[compress][fast]") {
  for (const sign& codec : {sign{}, sign{{.bucket = 48}}, unscaled}) {
    codec_checks::check_determinism(codec);
    codec_checks::check_refusals(codec);
    codec_checks::check_cuts(codec);
    codec_checks::check_adding(codec);
    codec_checks::check_random_bytes(codec);
  }
  codec_checks::check_error_feedback(sign{});
  codec_checks::check_second_trip(unscaled);
}

TEST_CASE("sign: a value that is not finite is found among many", "[compress][fast]") {
  thread_pool pool{3};
  auto x = codec_checks::values(50000);
  x[41234] = -std::numeric_limits<float>::infinity();
  std::vector<float> room(x.size());
  CHECK(sign{}.decode(pool, codec_checks::encode(sign{}, pool, x), room).error().code == errc::non_finite);
  CHECK(unscaled.decode(pool, codec_checks::encode(unscaled, pool, x), room).error().code == errc::non_finite);
}

TEST_CASE("sign: bytes that no encoder makes are refused", "[compress][fast]") {
  const sign codec{{.bucket = 16}};
  CHECK(decode_changed(codec, 4, {0, 0, 0x80, 0x7F}) == errc::non_finite);
  CHECK(decode_changed(codec, 0, {0, 0, 0xC0, 0xFF}) == errc::non_finite);
  CHECK(decode_changed(codec, 4, {0, 0, 0x80, 0xBF}) == errc::corrupt);
  CHECK(decode_changed(codec, 10, {0x10}) == errc::corrupt);
  CHECK(decode_changed(unscaled, 0, {1}) == errc::non_finite);
  CHECK(decode_changed(unscaled, 0, {2}) == errc::corrupt);
  CHECK(decode_changed(unscaled, 3, {0x80}) == errc::corrupt);
}

TEST_CASE("sign: zeros, tiny and huge values", "[compress][fast]") {
  CHECK(codec_checks::same_bits(round_trip(sign{}, std::vector<float>(300, 0.0F)), std::vector<float>(300, 0.0F)));
  CHECK(round_trip(sign{}, {1e-45F, -1e-45F}) == std::vector<float>{1e-45F, -1e-45F});
  CHECK(round_trip(sign{}, {3e38F}) == std::vector<float>{3e38F});
}

TEST_CASE("sign: options that cannot work are named", "[compress][fast]") {
  CHECK(validate(compress::sign_options{}));
  for (const std::uint32_t bucket : {0U, 8U, 250U, 65552U}) {
    CHECK(validate(compress::sign_options{.bucket = bucket}).error().code == errc::invalid_argument);
  }
}

TEST_CASE("unit sign: plus and minus one, and no scale", "[compress][fast]") {
  thread_pool pool{1};
  const std::vector<float> x{3, -0.25F, 0, -1e20F};
  const compress::unit_sign codec;
  std::vector<float> back(4);
  REQUIRE(codec.decode(pool, codec_checks::encode(codec, pool, x), back));
  CHECK(back == std::vector<float>{1, -1, 1, -1});
  CHECK(codec.encoded_size(100) == 14);
}
