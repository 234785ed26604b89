// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/sigma_int8.hpp>

#include "compress/codec_checks.hpp"
#include "compress/heavy_tails.hpp"
#include "support/catch.hpp"

#include <causeway/core/rng.hpp>

#include <cmath>
#include <map>

using namespace causeway;
using compress::sigma_int8;

namespace {

const sigma_int8 small{{.block = 320}};

std::vector<float> normal_values(std::size_t n, float mean = 0.0F) {
  rng draw{11};
  std::vector<float> x(n);
  for (float& v : x) v = mean + draw.normal();
  return x;
}

std::vector<float> round_trip(const sigma_int8& codec, const std::vector<float>& x) {
  thread_pool pool{1};
  std::vector<float> back(x.size());
  REQUIRE(codec.decode(pool, codec_checks::encode(codec, pool, x), back));
  return back;
}

float entry(const std::vector<std::byte>& bytes, std::size_t e) {
  float mean = 0;
  std::memcpy(&mean, bytes.data() + 4 * e, sizeof mean);
  return mean;
}

struct moments {
  double mean = 0, deviation = 0;
};

moments moments_of(const std::vector<float>& x) {
  moments m;
  for (const float v : x) m.mean += static_cast<double>(v) / static_cast<double>(x.size());
  for (const float v : x) m.deviation += std::pow(static_cast<double>(v) - m.mean, 2) / static_cast<double>(x.size() - 1);
  m.deviation = std::sqrt(m.deviation);
  return m;
}

}  // namespace

TEST_CASE("sigma int8: a codebook of bucket means, then one code a value", "[compress][fast]") {
  thread_pool pool{1};
  // Mean 1, squared deviations 4 · 9 + 4 · 1 + 4 · 0 over 11, so a deviation of 1.907 and buckets of 0.0447.
  const std::vector<float> x{4, -2, 4, -2, 2, 0, 2, 0, 1, 1, 1, 1};
  const auto bytes = codec_checks::encode(sigma_int8{}, pool, x);
  REQUIRE(bytes.size() == 1024 + 12);
  const std::vector<int> codes = codec_checks::as_ints({bytes.begin() + 1024, bytes.end()});
  CHECK(codes == std::vector<int>{195, 61, 195, 61, 150, 106, 150, 106, 128, 128, 128, 128});  // 67.1 and 22.4 buckets
  CHECK(entry(bytes, 195) == 4.0F);
  CHECK(entry(bytes, 61) == -2.0F);
  CHECK(entry(bytes, 128) == 1.0F);
  CHECK(entry(bytes, 0) == 0.0F);  // an empty bucket
}

TEST_CASE("sigma int8: the bytes are those of earlier versions", "[compress][fast]") {
  CHECK(codec_checks::checksum_of_bytes(sigma_int8{}) == 0xCE54A72DD928C587U);
}

TEST_CASE("sigma int8: sizes follow the formula", "[compress][fast]") {
  CHECK(sigma_int8{}.encoded_size(0) == 0);
  CHECK(sigma_int8{}.encoded_size(1) == 1025);
  CHECK(sigma_int8{}.encoded_size(65536) == 65536 + 1024);
  CHECK(sigma_int8{}.encoded_size(65537) == 65537 + 2048);
}

TEST_CASE("sigma int8: each value becomes the mean of all that have its code", "[compress][fast]") {
  thread_pool pool{1};
  const auto x = normal_values(20000, 0.5F);
  const auto bytes = codec_checks::encode(sigma_int8{}, pool, x);
  std::map<int, std::pair<double, double>> buckets;
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto& [sum, count] = buckets[std::to_integer<int>(bytes[1024 + i])];
    sum += static_cast<double>(x[i]), ++count;
  }
  CHECK(buckets.size() > 240);
  for (const auto& [code, bucket] : buckets) {
    CHECK(static_cast<double>(entry(bytes, static_cast<std::size_t>(code))) ==
          Approx(bucket.first / bucket.second).epsilon(1e-6).margin(1e-7));
  }
}

TEST_CASE("sigma int8: decodes to the codebook's entries, with every instruction set", "[compress][fast]") {
  thread_pool pool{1};
  const auto bytes = codec_checks::encode(small, pool, normal_values(1001));  // 4 blocks
  std::vector<float> expected(1001);
  for (std::size_t i = 0; i < 1001; ++i) {
    expected[i] = entry(bytes, i / 320 * 256 + std::to_integer<std::size_t>(bytes[4096 + i]));
  }
  for (const auto level : support::simd_levels()) {
    std::vector<float> back(1001);
    REQUIRE(small.decode(pool, bytes, back, level));
    CHECK(codec_checks::same_bits(back, expected));
  }
}

TEST_CASE("sigma int8: the error is at most a bucket's width but in the outermost buckets", "[compress][fast]") {
  const float range = GENERATE(6.0F, 12.0F);
  const auto x = normal_values(60000, -2.0F);
  const auto [mean, deviation] = moments_of(x);
  const auto back = round_trip(sigma_int8{{.range_in_deviations = range}}, x);
  const double width = static_cast<double>(range) * deviation / 256;
  std::size_t too_far = 0;
  double squares = 0, sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double off = static_cast<double>(back[i] - x[i]);
    sum += off;
    if (std::abs(static_cast<double>(x[i]) - mean) > static_cast<double>(range) / 2 * deviation - 2 * width)
      continue;  // outermost
    squares += off * off;
    if (std::abs(off) > width * 1.001) ++too_far;
  }
  CHECK(too_far == 0);
  CHECK(std::sqrt(squares / 60000) == Approx(width / std::sqrt(12.0)).epsilon(0.01));
  CHECK(std::abs(sum) < 60000 * 1e-7);  // means of buckets keep the mean of all
}

TEST_CASE("sigma int8: what lies beyond the range moves the mean of the outermost bucket", "[compress][fast]") {
  auto x = normal_values(10000);
  x[77] = 50.0F;
  const auto back = round_trip(sigma_int8{}, x);
  const auto top = *std::max_element(back.begin(), back.end());
  CHECK(back[77] == top);
  CHECK(top > 3.0F);
  CHECK(top < 15.0F);
  // A range wide enough keeps it.
  CHECK(round_trip(sigma_int8{{.range_in_deviations = 64}}, normal_values(400))[7] ==
        Approx(normal_values(400)[7]).margin(0.3));
}

TEST_CASE("sigma int8: equal values, one value and tiny differences", "[compress][fast]") {
  for (const float v : {0.0F, 1.1F, -3e-39F, 1e18F}) {
    CHECK(codec_checks::same_bits(round_trip(sigma_int8{}, std::vector<float>(1000, v)), std::vector<float>(1000, v)));
  }
  CHECK(round_trip(sigma_int8{}, {-7.25F}) == std::vector<float>{-7.25F});
  CHECK(round_trip(sigma_int8{}, {1e-38F, 3e-38F})[0] == Approx(2e-38F));  // squares vanish: one bucket
}

TEST_CASE("sigma int8: keeps what a codec promises", "[compress][fast]") {
  codec_checks::check_determinism(small);
  codec_checks::check_determinism(sigma_int8{});
  codec_checks::check_refusals(small);
  codec_checks::check_cuts(small);
  codec_checks::check_adding(small);
  codec_checks::check_adding(sigma_int8{});
  codec_checks::check_error_feedback(small);
}

TEST_CASE("sigma int8: sums that overflow are refused", "[compress][fast]") {
  thread_pool pool{1};
  std::vector<float> room(300);
  std::vector<float> x(300, 1.0F);
  x[10] = 3e19F;
  CHECK(small.decode(pool, codec_checks::encode(small, pool, x), room).error().code == errc::non_finite);
}

TEST_CASE("sigma int8: a codebook with NaN or infinity is refused before anything is added", "[compress][fast]") {
  thread_pool pool{1};
  const auto x = codec_checks::values(700);
  const auto good = codec_checks::encode(small, pool, x);
  for (std::size_t e = 0; e < 3 * 256; e += 51) {
    for (const std::uint32_t bits : {0x7F800000U, 0xFF800000U, 0x7FC00000U, 0xFFFFFFFFU}) {
      auto bad = good;
      std::memcpy(bad.data() + 4 * e, &bits, 4);
      auto sum = x;
      CHECK(small.decode_add(pool, bad, sum, 1.0F).error().code == errc::non_finite);
      CHECK(codec_checks::same_bits(sum, x));
    }
  }
}

TEST_CASE("sigma int8: random bytes are refused, or decode to finite values", "[compress][fast]") {
  codec_checks::check_random_bytes(small);
}

TEST_CASE("sigma int8: never loses more than was put in, of normal values 0.02%, of a bad block nearly all",
          "[compress][fast]") {
  for (const sigma_int8& codec : {sigma_int8{}, small}) {
    const auto trip = [&](const std::vector<float>& x) { return round_trip(codec, x); };
    CHECK(heavy_tails::worst_lost(trip, {1, 2, 50, 1000, 30000}) < 1.0);
  }
  const auto normal = heavy_tails::normal(1'000'000, 3);
  CHECK(heavy_tails::lost(normal, round_trip(sigma_int8{}, normal)) == Approx(2.4e-4).margin(1e-5));
  std::vector<float> bad(65536, 0.0F);  // a standard deviation of 0.43: the range ends at 1.3
  std::fill_n(bad.begin(), 20, 1.5F);
  bad[100] = 110.0F;
  const double lost = heavy_tails::lost(bad, round_trip(sigma_int8{}, bad));
  CHECK(lost == Approx(20.0 / 21).margin(0.05));
  CHECK(lost < 1.0);
}

TEST_CASE("sigma int8: options that cannot work are named", "[compress][fast]") {
  CHECK(validate(compress::sigma_int8_options{}));
  for (const std::uint32_t block : {0U, 128U, 300U, (1U << 20U) + 64U}) {
    CHECK(validate(compress::sigma_int8_options{.block = block}).error().code == errc::invalid_argument);
  }
  for (const float range : {0.0F, -6.0F, 65.0F, std::numeric_limits<float>::quiet_NaN()}) {
    CHECK_FALSE(validate(compress::sigma_int8_options{.range_in_deviations = range}));
  }
}
