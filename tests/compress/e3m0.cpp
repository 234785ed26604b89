// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/e3m0.hpp>

#include "compress/codec_checks.hpp"
#include "compress/heavy_tails.hpp"
#include "support/catch.hpp"

#include <cmath>

using namespace causeway;
using compress::e3m0;

namespace {

std::vector<float> round_trip(const e3m0& codec, const std::vector<float>& x) {
  thread_pool pool{1};
  std::vector<float> back(x.size());
  REQUIRE(codec.decode(pool, codec_checks::encode(codec, pool, x), back));
  return back;
}

/// The nearest of zero and the seven powers of two up to the one nearest to `most`, by trying all of them.
double nearest_level(double x, double most) {
  double top = 0x1.0p-119;
  while (most >= 1.5 * top && top < 0x1.0p127) top *= 2;
  double best = 0;
  for (double level = top / 64; level <= top; level *= 2) {
    if (std::abs(std::abs(x) - level) <= std::abs(std::abs(x) - best)) best = level;
  }
  return std::copysign(best, x);
}

errc decode_changed(std::size_t at, int byte) {
  thread_pool pool{1};
  const e3m0 codec{{.block = 16}};
  auto encoded = codec_checks::encode(codec, pool, codec_checks::values(31));
  encoded[at] = static_cast<std::byte>(byte);
  std::vector<float> room(31);
  const auto outcome = codec.decode(pool, encoded, room);
  REQUIRE_FALSE(outcome);
  return outcome.error().code;
}

}  // namespace

TEST_CASE("e3m0: the bytes are those of earlier versions", "[compress][fast]") {
  CHECK(codec_checks::checksum_of_bytes(compress::e3m0{}) == 0xB685A18C6E55A8EAU);
}

TEST_CASE("e3m0: a byte of scale, then two codes a byte, the first in the low half", "[compress][fast]") {
  thread_pool pool{1};
  const std::vector<float> x{1.0F, -0.5F, 0.25F, 0x1.0p-6F, -0x1.0p-7F, 0x1.FFFFFEp-8F, -0.0F, 0.75F, 0.74F};
  CHECK(codec_checks::as_ints(codec_checks::encode(e3m0{}, pool, x)) ==
        std::vector<int>{127, 0xE7, 0x15, 0x09, 0x78, 0x06});  // 2^-7 is half of the smallest level: rounded up
  CHECK(
      codec_checks::same_bits(round_trip(e3m0{}, x), {1.0F, -0.5F, 0.25F, 0x1.0p-6F, -0x1.0p-6F, 0.0F, -0.0F, 1.0F, 0.5F}));
}

TEST_CASE("e3m0: contracts by the stated factor, whatever the tails, and no factor is smaller", "[compress][fast]") {
  for (const std::uint32_t block : {16U, 256U, 4096U}) {
    const e3m0 codec{{.block = block}};
    const double small = (block - 1) / 16384.0, stated = (1 + 16 * small) / (9 + 16 * small);
    INFO("blocks of " << block);
    const auto trip = [&](const std::vector<float>& x) { return round_trip(codec, x); };
    CHECK(heavy_tails::worst_lost(trip, {1, 2, 50, 1000, 30000}) <= stated);
    const auto worst = heavy_tails::one_among(block, 0.75F, 0.99999F / 128);
    CHECK(heavy_tails::lost(worst, trip(worst)) == Approx(stated).epsilon(1e-3));
  }
}

TEST_CASE("e3m0: the scale is the nearest power of two to the largest value", "[compress][fast]") {
  CHECK(round_trip(e3m0{}, {1.49F}) == std::vector<float>{1.0F});
  CHECK(round_trip(e3m0{}, {-1.5F}) == std::vector<float>{-2.0F});
  CHECK(round_trip(e3m0{}, {1.5F, 1.0F}) == std::vector<float>{2.0F, 1.0F});
}

TEST_CASE("e3m0: sizes follow the formula, at most 4.04 bits a value", "[compress][fast]") {
  CHECK(e3m0{}.encoded_size(0) == 0);
  CHECK(e3m0{}.encoded_size(1) == 2);
  CHECK(e3m0{}.encoded_size(256) == 129);
  CHECK(e3m0{}.encoded_size(257) == 2 + 129);
  CHECK(e3m0{}.encoded_size(1 << 20U) == (1 << 19U) + 4096);
  CHECK(e3m0{{.block = 4096}}.encoded_size(1 << 20U) == (1 << 19U) + 256);
  // 4-bit messages every 100 steps against f32 ones every step: 400 times less, and more.
  CHECK(100.0 * 4 * (1 << 20U) / static_cast<double>(e3m0{}.encoded_size(1 << 20U)) == Approx(793.8).epsilon(1e-4));
}

TEST_CASE("e3m0: every value becomes the nearest level of its block", "[compress][fast]") {
  const std::uint32_t block = GENERATE(16U, 256U, 4096U);
  const auto x = codec_checks::values(20001);
  const auto back = round_trip(e3m0{{.block = block}}, x);
  std::size_t wrong = 0;
  for (std::size_t start = 0; start < x.size(); start += block) {
    const std::size_t end = std::min(x.size(), start + block);
    double most = 0;
    for (std::size_t i = start; i < end; ++i) most = std::max(most, static_cast<double>(std::abs(x[i])));
    for (std::size_t i = start; i < end; ++i) {
      if (static_cast<double>(back[i]) != nearest_level(static_cast<double>(x[i]), most)) ++wrong;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("e3m0: zeros, the smallest and the largest values", "[compress][fast]") {
  CHECK(codec_checks::same_bits(round_trip(e3m0{}, std::vector<float>(300, 0.0F)), std::vector<float>(300, 0.0F)));
  CHECK(round_trip(e3m0{}, {1e-45F, 0x1.0p-126F, 0x1.FFp-127F, -0x1.0p-125F}) ==
        std::vector<float>{0.0F, 0x1.0p-125F, 0.0F, -0x1.0p-125F});
  CHECK(round_trip(e3m0{}, {3.4e38F, -1e38F}) == std::vector<float>{0x1.0p127F, -0x1.0p126F});
}

TEST_CASE("e3m0: keeps what a codec promises", "[compress][fast]") {
  codec_checks::check_determinism(e3m0{});
  codec_checks::check_determinism(e3m0{{.block = 48}});
  codec_checks::check_refusals(e3m0{});
  codec_checks::check_cuts(e3m0{});
  codec_checks::check_second_trip(e3m0{});
  codec_checks::check_adding(e3m0{});
  codec_checks::check_error_feedback(e3m0{});
  codec_checks::check_random_bytes(e3m0{{.block = 16}});
}

TEST_CASE("e3m0: bytes that no encoder makes are refused", "[compress][fast]") {
  CHECK(decode_changed(0, 255) == errc::non_finite);
  CHECK(decode_changed(1, 255) == errc::non_finite);
  CHECK(decode_changed(0, 7) == errc::corrupt);
  CHECK(decode_changed(1, 0) == errc::corrupt);
  CHECK(decode_changed(2 + 15, 0x10) == errc::corrupt);  // half a byte behind the last code
}

TEST_CASE("e3m0: all other bytes decode to finite values", "[compress][fast]") {
  thread_pool pool{1};
  const e3m0 codec{{.block = 16}};
  std::size_t not_finite = 0;
  for (int scale = 8; scale < 255; ++scale) {
    std::vector<std::byte> bytes{static_cast<std::byte>(scale)};
    for (int pair = 0; pair < 8; ++pair) bytes.push_back(static_cast<std::byte>(0x10 + pair * 0x22));
    std::vector<float> values(16);
    REQUIRE(codec.decode(pool, bytes, values));
    for (const float v : values) not_finite += std::isfinite(v) ? 0U : 1U;
  }
  CHECK(not_finite == 0);
}

TEST_CASE("e3m0: options that cannot work are named", "[compress][fast]") {
  CHECK(validate(compress::e3m0_options{}));
  for (const std::uint32_t block : {0U, 8U, 250U, 65552U}) {
    CHECK(validate(compress::e3m0_options{.block = block}).error().code == errc::invalid_argument);
  }
}
