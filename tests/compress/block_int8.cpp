// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/block_int8.hpp>

#include "compress/codec_checks.hpp"
#include "compress/heavy_tails.hpp"
#include "support/catch.hpp"

#include <cmath>

using namespace causeway;
using compress::block_int8;
using compress::scale_format;

namespace {

std::vector<float> round_trip(const block_int8& codec, const std::vector<float>& x) {
  thread_pool pool{1};
  std::vector<float> back(x.size());
  REQUIRE(codec.decode(pool, codec_checks::encode(codec, pool, x), back));
  return back;
}

/// Overwrites bytes of an encoded block of 64 values and decodes it.
errc decode_with(std::size_t at, std::initializer_list<int> bytes) {
  thread_pool pool{1};
  const block_int8 codec{{.block = 64}};
  auto encoded = codec_checks::encode(codec, pool, codec_checks::values(100));
  for (const int b : bytes) encoded[at++] = static_cast<std::byte>(b);
  std::vector<float> room(100);
  const auto outcome = codec.decode(pool, encoded, room);
  REQUIRE_FALSE(outcome);
  return outcome.error().code;
}

}  // namespace

TEST_CASE("block int8: scales first, then one code a value", "[compress][fast]") {
  thread_pool pool{1};
  std::vector<float> x(66, 0.0F);
  x[0] = 127.0F, x[1] = -63.5F, x[2] = 0.5F, x[3] = 1.5F, x[63] = -127.0F;  // .5 and 1.5 are ties: 0 and 2
  x[64] = 2.54F, x[65] = -1.27F;
  const auto bytes = codec_checks::as_ints(codec_checks::encode(block_int8{{.block = 64}}, pool, x));
  REQUIRE(bytes.size() == 2 * 4 + 66);
  CHECK(std::vector<int>(bytes.begin(), bytes.begin() + 8) == std::vector<int>{0, 0, 0x80, 0x3F, 0x0A, 0xD7, 0xA3, 0x3C});
  CHECK(std::vector<int>(bytes.begin() + 8, bytes.begin() + 13) == std::vector<int>{127, 192, 0, 2, 0});  // -63.5: -64
  CHECK(std::vector<int>(bytes.end() - 3, bytes.end()) == std::vector<int>{129, 127, 192});
}

TEST_CASE("block int8: the bytes of its formula, whatever the values", "[compress][fast]") {
  const auto nearest = [](float y) { return static_cast<std::uint8_t>(static_cast<int>(std::nearbyint(y))); };
  for (const std::uint32_t block : {64U, 256U}) codec_checks::check_formula(block_int8{{.block = block}}, 127, 0, nearest);
}

TEST_CASE("block int8: bf16 scales take two bytes and are rounded up", "[compress][fast]") {
  thread_pool pool{1};
  const block_int8 codec{{.block = 64, .scales = scale_format::bf16}};
  const auto bytes = codec_checks::as_ints(codec_checks::encode(codec, pool, std::vector<float>(65, 2.54F)));
  REQUIRE(bytes.size() == 2 * 2 + 65);
  CHECK(std::vector<int>(bytes.begin(), bytes.begin() + 4) == std::vector<int>{0xA4, 0x3C, 0xA4, 0x3C});
  CHECK(bytes.back() == 127);
}

TEST_CASE("block int8: sizes follow the formula", "[compress][fast]") {
  const block_int8 codec;
  CHECK(codec.encoded_size(0) == 0);
  CHECK(codec.encoded_size(1) == 5);
  CHECK(codec.encoded_size(256) == 260);
  CHECK(codec.encoded_size(257) == 265);
  CHECK(codec.encoded_size(1 << 20U) == (1 << 20U) + 4 * 4096);
  CHECK(block_int8{{.block = 4096, .scales = scale_format::bf16}}.encoded_size(4097) == 4101);
}

TEST_CASE("block int8: the error is at most half a step of the value's block", "[compress][fast]") {
  const std::uint32_t block = GENERATE(64U, 256U, 1008U, 4096U);
  const scale_format scales = GENERATE(scale_format::f32, scale_format::bf16);
  const auto x = codec_checks::values(40001);
  const auto back = round_trip(block_int8{{.block = block, .scales = scales}}, x);
  const float slack = scales == scale_format::f32 ? 1.00001F : 1.01F;
  std::size_t too_far = 0;
  double worst = 0;
  for (std::size_t start = 0; start < x.size(); start += block) {
    const std::size_t end = std::min(x.size(), start + block);
    float most = 0;
    for (std::size_t i = start; i < end; ++i) most = std::max(most, std::abs(x[i]));
    for (std::size_t i = start; i < end; ++i) {
      const float distance = std::abs(back[i] - x[i]);
      if (distance > most / 254.0F * slack) ++too_far;
      worst = std::max(worst, static_cast<double>(distance / (most / 254.0F)));
    }
  }
  CHECK(too_far == 0);
  CHECK(worst > 0.9);  // the bound is tight: a coarser code would not pass, a finer one would not be int8
}

TEST_CASE("block int8: contracts by the stated factor, whatever the tails, and no factor is smaller", "[compress][fast]") {
  for (const std::uint32_t block : {64U, 256U, 4096U}) {
    const block_int8 codec{{.block = block}};
    const double stated = (block - 1) / (254.0 * 254.0 + block - 1);
    INFO("blocks of " << block);
    const auto trip = [&](const std::vector<float>& x) { return round_trip(codec, x); };
    CHECK(heavy_tails::worst_lost(trip, {1, 2, 50, 1000, 30000}) <= stated);
    const auto worst = heavy_tails::one_among(block, 127.0F, 0.49999F);
    CHECK(heavy_tails::lost(worst, trip(worst)) == Approx(stated).epsilon(1e-3));
  }
}

TEST_CASE("block int8: zeros, the smallest and the largest values", "[compress][fast]") {
  const block_int8 codec;
  CHECK(codec_checks::same_bits(round_trip(codec, std::vector<float>(300, 0.0F)), std::vector<float>(300, 0.0F)));
  for (const float tiny : round_trip(codec, std::vector<float>(300, 1e-40F))) CHECK(std::abs(tiny - 1e-40F) <= 1.5e-36F);
  for (const float small : round_trip(codec, std::vector<float>(300, 3e-36F))) CHECK(small == Approx(3e-36F).epsilon(1e-6));
  const auto huge = round_trip(codec, {3.4e38F, -3.4e38F, 1e38F});
  CHECK(huge[0] == Approx(3.4e38F).epsilon(1e-6));
  CHECK(huge[1] == -huge[0]);
}

TEST_CASE("block int8: bytes that no encoder makes are refused", "[compress][fast]") {
  CHECK(decode_with(0, {0, 0, 0xC0, 0x7F}) == errc::non_finite);        // NaN scale
  CHECK(decode_with(4, {0, 0, 0x80, 0x7F}) == errc::non_finite);        // infinite scale, second block
  CHECK(decode_with(4, {0xFF, 0xFF, 0x7F, 0x7F}) == errc::non_finite);  // 127 times it is infinite
  CHECK(decode_with(0, {0, 0, 0x80, 0xBF}) == errc::corrupt);           // negative scale
  CHECK(decode_with(8, {0x80}) == errc::corrupt);                       // code -128
  CHECK(decode_with(107, {0x80}) == errc::corrupt);                     // in the last place
}

TEST_CASE("block int8: options that cannot work are named", "[compress][fast]") {
  CHECK(validate(compress::block_int8_options{}));
  CHECK(validate(compress::block_int8_options{.block = 4096, .scales = scale_format::bf16}));
  for (const std::uint32_t block : {0U, 16U, 63U, 65U, 100U, 4112U}) {
    CHECK(validate(compress::block_int8_options{.block = block}).error().code == errc::invalid_argument);
  }
  CHECK_FALSE(validate(compress::block_int8_options{.scales = static_cast<scale_format>(7)}));
}

TEST_CASE("block int8: other blocks and scales do not depend on instruction set or thread count", "[compress][fast]") {
  codec_checks::check_determinism(block_int8{{.block = 80, .scales = scale_format::bf16}});
  codec_checks::check_determinism(block_int8{{.block = 4096}});
}
