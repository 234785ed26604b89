// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/bits.hpp>

#include "compress/codec_checks.hpp"
#include "compress/heavy_tails.hpp"
#include "support/catch.hpp"

#include <cmath>

using namespace causeway;
using compress::bits;
using compress::bits_options;
using compress::bucket_scale;
using compress::scale_format;

namespace {

template <unsigned B>
std::vector<float> round_trip(const bits<B>& codec, const std::vector<float>& x) {
  thread_pool pool{1};
  std::vector<float> back(x.size());
  REQUIRE(codec.decode(pool, codec_checks::encode(codec, pool, x), back));
  return back;
}

/// Largest error over the bound that the codec states, per bucket.
template <unsigned B>
double worst_error(const bits_options& options, const std::vector<float>& x) {
  const auto back = round_trip(bits<B>{options}, x);
  const double steps = B >= 3 ? (1 << B) - 2 : (1 << B) - 1;
  double worst = 0;
  for (std::size_t start = 0; start < x.size(); start += options.bucket) {
    const std::size_t end = std::min(x.size(), start + options.bucket);
    double most = 0;
    for (std::size_t i = start; i < end; ++i) most = std::max(most, static_cast<double>(std::abs(x[i])));
    for (std::size_t i = start; i < end; ++i) {
      if (most > 0) worst = std::max(worst, std::abs(static_cast<double>(back[i] - x[i])) / (most / steps));
    }
  }
  return worst;
}

/// One bucket of 16 values: a scale of 4 bytes, then the codes.
template <unsigned B>
errc decode_changed(std::size_t at, std::initializer_list<int> bytes, std::size_t values = 15) {
  thread_pool pool{1};
  const bits<B> codec{{.bucket = 16}};
  auto encoded = codec_checks::encode(codec, pool, codec_checks::values(values));
  for (const int b : bytes) encoded[at++] = static_cast<std::byte>(b);
  std::vector<float> room(values);
  const auto outcome = codec.decode(pool, encoded, room);
  REQUIRE_FALSE(outcome);
  return outcome.error().code;
}

}  // namespace

TEST_CASE("bits: scales first, then codes without gaps, lowest bits first", "[compress][fast]") {
  thread_pool pool{1};
  const bits_options small{.bucket = 16};
  // 4 bits: levels -7 .. 7, code = level + 8. The scale is 14/7 = 2.
  CHECK(codec_checks::as_ints(codec_checks::encode(bits<4>{small}, pool, {14.0F, -14.0F, 0.0F, 2.0F, 5.0F})) ==
        std::vector<int>{0, 0, 0, 0x40, 0x1F, 0x98, 0x0A});  // 5 is a tie between 4 and 6, levels 2 and 3
  // 2 bits: -3, -1, 1, 3 times the scale 3/3 = 1.
  CHECK(codec_checks::as_ints(codec_checks::encode(bits<2>{small}, pool, {3.0F, -3.0F, 0.5F, -0.5F, 2.1F})) ==
        std::vector<int>{0, 0, 0x80, 0x3F, 0b01100011, 0b11});
  // 3 bits: -3 .. 3, code = level + 4: 7, 1, 4, 5, 6 -> 111 001 100 101 110 from the right
  CHECK(codec_checks::as_ints(codec_checks::encode(bits<3>{small}, pool, {3.0F, -3.0F, 0.0F, 1.0F, 2.0F})) ==
        std::vector<int>{0, 0, 0x80, 0x3F, 0b00001111, 0b01101011});
  CHECK(codec_checks::as_ints(codec_checks::encode(bits<1>{small}, pool, {2.0F, -1.0F, 1.0F})) ==
        std::vector<int>{0, 0, 0, 0x40, 0b101});
}

TEST_CASE("bits: the bytes are those of earlier versions", "[compress][fast]") {
  const auto nearest = [](const auto& codec) { return codec_checks::checksum_of_bytes(codec); };
  CHECK(nearest(bits<1>{}) == 0x7E1E93BDDAC46A4CU);
  CHECK(nearest(bits<2>{}) == 0x07958A03AD8AC251U);
  CHECK(nearest(bits<3>{}) == 0xE21A4D64A8A6DAA3U);
  CHECK(nearest(bits<4>{}) == 0xF8853E2A6F093020U);
  CHECK(nearest(bits<5>{}) == 0xA06A2FBD7FBF39FEU);
  CHECK(nearest(bits<6>{}) == 0x461C66A94F19B920U);
  CHECK(nearest(bits<7>{}) == 0xDD78FDB0ACA9C81CU);
  CHECK(nearest(bits<8>{}) == 0x98D4B605154ADD7DU);
  const bits_options random{.stochastic = true, .seed = 5};
  CHECK(nearest(bits<1>{random}) == 0x36B6304BF6B4DCD8U);
  CHECK(nearest(bits<2>{random}) == 0x11082EF15F177228U);
  CHECK(nearest(bits<3>{random}) == 0x5A51ED62116F4103U);
  CHECK(nearest(bits<4>{random}) == 0x36BF47B56A6E1A2BU);
  CHECK(nearest(bits<8>{random}) == 0xFBF6CC853B5291DBU);
}

TEST_CASE("bits: sizes follow the formula", "[compress][fast]") {
  CHECK(bits<4>{}.encoded_size(0) == 0);
  CHECK(bits<4>{}.encoded_size(1) == 5);
  CHECK(bits<4>{}.encoded_size(128) == 68);
  CHECK(bits<4>{}.encoded_size(129) == 8 + 65);
  CHECK(bits<1>{}.encoded_size(9) == 4 + 2);
  CHECK(bits<3>{}.encoded_size(43) == 4 + 17);
  CHECK(bits<2>{{.bucket = 4096, .scales = scale_format::bf16}}.encoded_size(1 << 20U) == (1 << 18U) + 2 * 256);
}

TEMPLATE_TEST_CASE_SIG("bits: every width keeps what a codec promises", "[compress][fast]", ((unsigned B), B), 1, 2, 3, 4,
                       5, 6, 7, 8) {
  const bits<B> codec{{.bucket = 48, .scales = scale_format::bf16}};
  codec_checks::check_determinism(bits<B>{});
  codec_checks::check_refusals(codec);
  codec_checks::check_cuts(codec);
  codec_checks::check_adding(codec);
  codec_checks::check_error_feedback(codec);
  codec_checks::check_random_bytes(codec);
  STATIC_REQUIRE(bits<B>::name.size() == 5);
  STATIC_REQUIRE(bits<B>::name.back() == '0' + static_cast<char>(B));
}

TEMPLATE_TEST_CASE_SIG("bits: the error is at most half a step of the value's bucket", "[compress][fast]",
                       ((unsigned B), B), 1, 2, 3, 4, 5, 6, 7, 8) {
  const auto x = codec_checks::values(40001);
  for (const std::uint32_t bucket : {16U, 128U, 4096U}) {
    const double exact = worst_error<B>({.bucket = bucket}, x);
    CHECK(exact < 1.00001);
    CHECK(exact > 0.99);  // the bound is tight
    CHECK(worst_error<B>({.bucket = bucket, .scales = scale_format::bf16}, x) < 1.01);
    const double either_way = worst_error<B>({.bucket = bucket, .stochastic = true}, x);
    CHECK(either_way < 2.00001);
    CHECK(either_way > 1.5);
  }
}

TEMPLATE_TEST_CASE_SIG("bits: with a level of zero they contract by the stated factor, whatever the tails",
                       "[compress][fast]", ((unsigned B), B), 3, 4, 5, 8) {
  constexpr double steps = (1 << B) - 2;
  for (const std::uint32_t bucket : {16U, 128U, 4096U}) {
    INFO("buckets of " << bucket);
    const bits<B> max{{.bucket = bucket}}, rms{{.bucket = bucket, .scale = bucket_scale::rms}};
    const double stated = (bucket - 1) / (steps * steps + bucket - 1);
    const auto by_max = [&](const std::vector<float>& x) { return round_trip(max, x); };
    CHECK(heavy_tails::worst_lost(by_max, {1, 2, 50, 1000, 30000}) <= stated);
    const auto worst = heavy_tails::one_among(bucket, static_cast<float>(steps), 0.99999F);
    CHECK(heavy_tails::lost(worst, by_max(worst)) == Approx(stated).epsilon(1e-3));  // no factor is smaller

    const double top = static_cast<double>(compress::detail::bit_levels<B>::best_top[B - 1]);
    const double clipped = std::max(0.0, 1 - top / std::sqrt(bucket));
    const auto by_rms = [&](const std::vector<float>& x) { return round_trip(rms, x); };
    CHECK(heavy_tails::worst_lost(by_rms, {1, 2, 50, 1000, 30000}) <=
          top * top / (steps * steps) + clipped * clipped + 1e-6);
    const auto alone = heavy_tails::one_among(bucket, 1.0F, 0.0F);
    CHECK(heavy_tails::lost(alone, by_rms(alone)) == Approx(clipped * clipped).margin(0.01));
  }
}

TEMPLATE_TEST_CASE_SIG("bits: without a level of zero one large value makes them lose more than was put in",
                       "[compress][fast]", ((unsigned B), B), 1, 2) {
  const auto x = heavy_tails::one_among(128, 100.0F, 0.001F);
  const double steps = (1 << B) - 1;
  CHECK(heavy_tails::lost(x, round_trip(bits<B>{}, x)) == Approx(127 / (steps * steps)).epsilon(1e-3));
  const auto longer = heavy_tails::one_among(4096, 100.0F, 0.001F);
  CHECK(heavy_tails::lost(longer, round_trip(bits<B>{{.bucket = 4096, .scale = bucket_scale::rms}}, longer)) > 1.1);
}

TEMPLATE_TEST_CASE_SIG("bits: stochastic rounding and root mean squares keep what a codec promises", "[compress][fast]",
                       ((unsigned B), B), 1, 2, 4, 7) {
  const bits<B> codec{{.bucket = 64, .scale = bucket_scale::rms, .stochastic = true, .seed = 5}};
  codec_checks::check_determinism(codec);
  codec_checks::check_refusals(codec);
  codec_checks::check_cuts(codec);
  codec_checks::check_error_feedback(codec);
}

TEMPLATE_TEST_CASE_SIG("bits: stochastic rounding is right in the mean, over places and over seeds", "[compress][fast]",
                       ((unsigned B), B), 1, 2, 3, 4, 8) {
  constexpr std::size_t n = 65536;
  // One value at all places but the first, which sets the scale; then its neighbours in f32 too.
  for (const float value : {0.0F, 0.1F, -0.37F, 0.77F, 0.9999F}) {
    std::vector<float> x(n, value);
    for (std::size_t i = 0; i < n; i += 128) x[i] = 1.0F;
    double sum = 0, squares = 0;
    std::size_t count = 0;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      for (std::size_t i = 0; i < n; ++i) {
        if (i % 128 != 0)
          x[i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) + static_cast<std::uint32_t>(i / 128));
      }
      const auto back = round_trip(bits<B>{{.stochastic = true, .seed = seed}}, x);
      for (std::size_t i = 0; i < n; ++i) {
        if (i % 128 == 0) continue;
        const double off = static_cast<double>(back[i]) - static_cast<double>(x[i]);
        sum += off, squares += off * off, ++count;
      }
    }
    const double mean = sum / static_cast<double>(count);
    const double deviation = std::sqrt(squares / static_cast<double>(count) / static_cast<double>(count));
    INFO("bits " << B << " value " << value << " mean " << mean << " deviation of it " << deviation);
    CHECK(std::abs(mean) <= 4.5 * deviation + 1e-7);
  }
}

TEST_CASE("bits: nearest rounding is not right in the mean, which is what stochastic rounding is for", "[compress][fast]") {
  std::vector<float> x(128, 0.1F);
  x[0] = 1.0F;
  double plain = 0;
  for (const float v : round_trip(bits<3>{}, x)) plain += static_cast<double>(v);
  CHECK(plain == 1.0);  // all tenths are gone
}

TEST_CASE("bits: stochastic rounding leaves levels where they are, zero among them", "[compress][fast]") {
  std::vector<float> x(128, 0.0F);
  x[0] = 7.0F, x[1] = -3.0F, x[2] = 1.0F;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    CHECK(codec_checks::same_bits(round_trip(bits<4>{{.stochastic = true, .seed = seed}}, x), x));
  }
}

TEST_CASE("bits: seeds matter, and places too", "[compress][fast]") {
  thread_pool pool{1};
  const auto x = codec_checks::values(1000);
  const auto with = [&](std::uint64_t seed) {
    return codec_checks::encode(bits<4>{{.stochastic = true, .seed = seed}}, pool, x);
  };
  CHECK(with(1) == with(1));
  CHECK(with(1) != with(2));
  CHECK(with(1) != codec_checks::encode(bits<4>{}, pool, x));
  std::vector<float> same(128, 0.5F);
  same[0] = 7.0F;
  const auto back = round_trip(bits<4>{{.stochastic = true}}, same);
  const auto up = std::count(back.begin(), back.end(), 1.0F);
  CHECK(up > 40);
  CHECK(up < 87);
}

TEST_CASE("bits: the top level for root mean squares is the best one for normal values", "[compress][fast]") {
  rng draw{3};
  std::vector<float> x(65536);
  for (float& v : x) v = draw.normal();
  const auto error = [&](const auto& codec) {
    const auto back = round_trip(codec, x);
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += std::pow(static_cast<double>(back[i] - x[i]), 2);
    return sum / static_cast<double>(x.size());
  };
  const bits_options rms{.bucket = 65536, .scale = bucket_scale::rms}, max{.bucket = 65536};
  CHECK(error(bits<1>{rms}) == Approx(0.3634).epsilon(0.04));  // Max (1960), table I
  CHECK(error(bits<2>{rms}) == Approx(0.1188).epsilon(0.04));
  CHECK(error(bits<3>{rms}) == Approx(0.04686).epsilon(0.04));
  CHECK(error(bits<4>{rms}) == Approx(0.01289).epsilon(0.04));
  CHECK(error(bits<2>{max}) > 2 * error(bits<2>{rms}));
}

TEST_CASE("bits: zeros, the smallest and the largest values", "[compress][fast]") {
  const std::vector<float> zeros(300, 0.0F);
  CHECK(codec_checks::same_bits(round_trip(bits<4>{}, zeros), zeros));
  CHECK(codec_checks::same_bits(round_trip(bits<2>{}, zeros), zeros));
  CHECK(codec_checks::same_bits(round_trip(bits<1>{{.scale = bucket_scale::rms}}, zeros), zeros));
  for (const float tiny : round_trip(bits<4>{}, std::vector<float>(20, 1e-40F))) CHECK(tiny == 0.0F);
  const auto huge = round_trip(bits<2>{}, {3.3e38F, -3.3e38F, 1e38F});
  CHECK(huge[0] == Approx(3.3e38F).epsilon(1e-6));
  CHECK(huge[1] == -huge[0]);
}

TEST_CASE("bits: bytes that no encoder makes are refused", "[compress][fast]") {
  CHECK(decode_changed<4>(0, {0, 0, 0xC0, 0x7F}) == errc::non_finite);        // NaN
  CHECK(decode_changed<4>(0, {0, 0, 0x80, 0xFF}) == errc::non_finite);        // minus infinity
  CHECK(decode_changed<4>(0, {0xFF, 0xFF, 0x7F, 0x7F}) == errc::non_finite);  // 7 times it is infinite
  CHECK(decode_changed<2>(0, {0xFF, 0xFF, 0x7F, 0x7F}) == errc::non_finite);  // 3 times it is infinite
  CHECK(decode_changed<4>(0, {0, 0, 0x80, 0xBF}) == errc::corrupt);           // negative
  CHECK(decode_changed<4>(0, {0, 0, 0, 0x80}) == errc::corrupt);              // minus zero
  CHECK(decode_changed<4>(4, {0x80}) == errc::corrupt);                       // code 0 in the first place
  CHECK(decode_changed<4>(4, {0x0F}) == errc::corrupt);                       // in the second
  CHECK(decode_changed<4>(11, {0x00}) == errc::corrupt);                      // in the last of 15
  CHECK(decode_changed<4>(11, {0x1F}) == errc::corrupt);                      // bits behind the last
  CHECK(decode_changed<3>(4, {0b111}, 2) == errc::corrupt);
  CHECK(decode_changed<1>(4, {0b1000}, 3) == errc::corrupt);
  CHECK(decode_changed<8>(4 + 14, {0}) == errc::corrupt);
}

TEST_CASE("bits: an unused code is found wherever it stands", "[compress][fast]") {
  thread_pool pool{3};
  const auto x = codec_checks::values(40000);
  const bits<4> codec;
  const auto good = codec_checks::encode(codec, pool, x);
  const auto start = codec_checks::values(x.size(), 2);
  for (std::size_t at = good.size() - 20000; at < good.size(); at += 911) {
    auto bad = good;
    bad[at] &= std::byte{0xF0};
    auto sum = start;
    CHECK(codec.decode_add(pool, bad, sum, 1.0F).error().code == errc::corrupt);
    CHECK(codec_checks::same_bits(sum, start));
  }
}

TEST_CASE("bits: options that cannot work are named", "[compress][fast]") {
  CHECK(validate(bits_options{}));
  CHECK(validate(bits_options{.bucket = 65536}));
  for (const std::uint32_t bucket : {0U, 8U, 17U, 65552U}) {
    CHECK(validate(bits_options{.bucket = bucket}).error().code == errc::invalid_argument);
  }
  CHECK_FALSE(validate(bits_options{.scale = static_cast<bucket_scale>(2)}));
  CHECK_FALSE(validate(bits_options{.scales = static_cast<scale_format>(2)}));
}
