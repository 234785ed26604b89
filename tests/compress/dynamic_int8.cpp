// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/dynamic_int8.hpp>

#include "compress/codec_checks.hpp"
#include "compress/heavy_tails.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>

using namespace causeway;
using compress::dynamic_int8;

namespace {

std::vector<float> round_trip(const dynamic_int8& codec, const std::vector<float>& x) {
  thread_pool pool{1};
  std::vector<float> back(x.size());
  REQUIRE(codec.decode(pool, codec_checks::encode(codec, pool, x), back));
  return back;
}

/// Overwrites a scale of an encoded row of two blocks, and decodes it.
errc decode_with(std::size_t at, std::initializer_list<int> bytes) {
  thread_pool pool{1};
  const dynamic_int8 codec{{.block = 64}};
  auto encoded = codec_checks::encode(codec, pool, codec_checks::values(100));
  for (const int b : bytes) encoded[at++] = static_cast<std::byte>(b);
  std::vector<float> room(100);
  const auto outcome = codec.decode(pool, encoded, room);
  REQUIRE_FALSE(outcome);
  return outcome.error().code;
}

}  // namespace

TEST_CASE("dynamic int8: largest magnitudes first, then one code a value", "[compress][fast]") {
  thread_pool pool{1};
  std::vector<float> x(66, 0.0F);
  x[0] = 2.0F, x[1] = -2.0F, x[2] = 1.986F, x[3] = 1.1e-6F, x[4] = -1.1e-6F, x[5] = 5e-7F, x[6] = -0.2F;
  x[64] = -3.0F, x[65] = 3.0F * 0.0114F;
  const auto bytes = codec_checks::as_ints(codec_checks::encode(dynamic_int8{{.block = 64}}, pool, x));
  REQUIRE(bytes.size() == 2 * 4 + 66);
  CHECK(std::vector<int>(bytes.begin(), bytes.begin() + 8) == std::vector<int>{0, 0, 0, 0x40, 0, 0, 0x40, 0x40});
  // 1; its negative has no level of its own; the level below 1; the smallest; its negative; zero; -0.1 is nearest to
  // -0.0986
  CHECK(std::vector<int>(bytes.begin() + 8, bytes.begin() + 16) == std::vector<int>{255, 0, 254, 128, 126, 127, 64, 127});
  CHECK(std::vector<int>(bytes.end() - 3, bytes.end()) == std::vector<int>{127, 0, 159});
}

TEST_CASE("dynamic int8: sizes follow the formula", "[compress][fast]") {
  CHECK(dynamic_int8{}.encoded_size(0) == 0);
  CHECK(dynamic_int8{}.encoded_size(1) == 5);
  CHECK(dynamic_int8{}.encoded_size(4097) == 4105);
  CHECK(dynamic_int8{{.block = 64}}.encoded_size(1 << 20U) == (1 << 20U) + 4 * 16384);
}

TEST_CASE("dynamic int8: every value becomes the nearest level of its block", "[compress][fast]") {
  const std::uint32_t block = GENERATE(64U, 1008U, 4096U);
  const float* const levels = compress::dynamic_map::instance().levels();
  const auto x = codec_checks::values(20001);
  const auto back = round_trip(dynamic_int8{{.block = block}}, x);
  std::size_t too_far = 0;
  for (std::size_t start = 0; start < x.size(); start += block) {
    const std::size_t end = std::min(x.size(), start + block);
    float most = 0;
    for (std::size_t i = start; i < end; ++i) most = std::max(most, std::abs(x[i]));
    for (std::size_t i = start; i < end; ++i) {
      const double y = double{x[i]} / double{most};
      const float* const above = std::lower_bound(levels, levels + 255, static_cast<float>(y));
      double best = std::abs(double{*above} - y);
      if (above != levels) best = std::min(best, std::abs(double{above[-1]} - y));
      const double distance = std::abs(double{back[i]} - double{x[i]}) / double{most};
      if (distance > best + 1e-6 * std::abs(y)) ++too_far;
    }
  }
  CHECK(too_far == 0);
}

TEST_CASE("dynamic int8: the bytes of its formula, whatever the values", "[compress][fast]") {
  const float* const levels = compress::dynamic_map::instance().levels();
  std::vector<double> borders;
  for (int l = 0; l < 255; ++l) borders.push_back((double{levels[l]} + double{levels[l + 1]}) / 2);
  const auto nearest = [&](float y) {  // in the middle: the level nearer to zero
    const auto found = y > 0 ? std::lower_bound(borders.begin(), borders.end(), double{y})
                             : std::upper_bound(borders.begin(), borders.end(), double{y});
    return static_cast<std::uint8_t>(found - borders.begin());
  };
  for (const std::uint32_t block : {64U, 4096U})
    codec_checks::check_formula(dynamic_int8{{.block = block}}, 1, 127, nearest);
}

TEST_CASE("dynamic int8: contracts by the stated factor, whatever the tails", "[compress][fast]") {
  for (const std::uint32_t block : {64U, 4096U}) {
    const dynamic_int8 codec{{.block = block}};
    INFO("blocks of " << block);
    const auto trip = [&](const std::vector<float>& x) { return round_trip(codec, x); };
    CHECK(heavy_tails::worst_lost(trip, {1, 2, 50, 1000, 30000}) <= 0.005);
  }
  auto worst = std::vector<float>(4096, 0.0128124F);  // where levels of the second decade part
  worst[0] = 1.0F;
  CHECK(heavy_tails::lost(worst, round_trip(dynamic_int8{}, worst)) == Approx(0.0049).epsilon(0.02));
}

TEST_CASE("dynamic int8: small values beside a large one keep their sign and size", "[compress][fast]") {
  std::vector<float> x(4096);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = (i % 2 == 0 ? 1e-3F : -1e-3F) * (1.0F + static_cast<float>(i) / 4096.0F);
  x[7] = 1.0F;
  const auto back = round_trip(dynamic_int8{}, x);
  double off = 0;
  for (std::size_t i = 0; i < x.size(); ++i) off = std::max(off, double{std::abs(back[i] / x[i] - 1.0F)});
  CHECK(off < 0.181);  // an even code has nothing between 0 and 1/127
}

TEST_CASE("dynamic int8: zeros, the smallest and the largest values", "[compress][fast]") {
  const dynamic_int8 codec;
  CHECK(codec_checks::same_bits(round_trip(codec, std::vector<float>(300, 0.0F)), std::vector<float>(300, 0.0F)));
  for (const float tiny : round_trip(codec, std::vector<float>(300, 1e-40F))) CHECK(tiny == 0.0F);
  for (const float small : round_trip(codec, std::vector<float>(300, 2e-38F))) CHECK(small == 2e-38F);
  const auto huge = round_trip(codec, {3.4e38F, -3.4e38F, 1e38F});
  CHECK(huge[0] == 3.4e38F);
  CHECK(huge[1] == Approx(-3.4e38F).epsilon(0.0072));
  CHECK(huge[2] == Approx(1e38F).epsilon(0.025));
}

TEST_CASE("dynamic int8: bytes that no encoder makes are refused", "[compress][fast]") {
  CHECK(decode_with(0, {0, 0, 0xC0, 0x7F}) == errc::non_finite);  // NaN
  CHECK(decode_with(4, {0, 0, 0x80, 0x7F}) == errc::non_finite);  // infinity, second block
  CHECK(decode_with(0, {0, 0, 0x80, 0xBF}) == errc::corrupt);     // below zero
}

TEST_CASE("dynamic int8: options that cannot work are named", "[compress][fast]") {
  CHECK(validate(compress::dynamic_int8_options{}));
  for (const std::uint32_t block : {0U, 16U, 63U, 100U, 4112U}) {
    CHECK(validate(compress::dynamic_int8_options{.block = block}).error().code == errc::invalid_argument);
  }
}

TEST_CASE("dynamic int8: what every codec must do", "[compress][fast]") {
  codec_checks::check_determinism(dynamic_int8{});
  codec_checks::check_determinism(dynamic_int8{{.block = 80}});
  codec_checks::check_refusals(dynamic_int8{});
  codec_checks::check_cuts(dynamic_int8{{.block = 1008}});
  codec_checks::check_adding(dynamic_int8{});
  codec_checks::check_error_feedback(dynamic_int8{});
  codec_checks::check_random_bytes(dynamic_int8{});
}
