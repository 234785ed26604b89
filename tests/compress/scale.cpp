// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/scale.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <vector>

using namespace causeway;
using compress::scale_format;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

float stored(float scale, scale_format format) {
  std::byte room[4] = {};
  compress::detail::store_usable_scale(room, 0, format, scale);
  return compress::detail::load_scale(room, 0, format);
}

compress::detail::decoding look_at(float scale, float largest) {
  std::byte room[8] = {};
  compress::detail::store_scale(room, 1, scale_format::f32, scale);
  return compress::detail::check_scales(room, 2, scale_format::f32, largest);
}

}  // namespace

TEST_CASE("scale: f32 as it is, bf16 never smaller", "[compress][fast]") {
  for (const float scale : {1.0F, 0.1F, 3.3e-5F, 1.2e30F}) {
    CHECK(stored(scale, scale_format::f32) == scale);
    CHECK(stored(scale, scale_format::bf16) >= scale);
    CHECK(stored(scale, scale_format::bf16) <= scale * 1.0079F);
  }
}

TEST_CASE("scale: too small is stored as zero, not finite as one NaN, and both are of no use", "[compress][fast]") {
  for (const scale_format format : {scale_format::f32, scale_format::bf16}) {
    CHECK(stored(1e-39F, format) == 0.0F);
    CHECK(std::isnan(stored(infinity, format)));
    CHECK(std::isnan(stored(-std::nanf("7"), format)));
    std::byte room[4] = {};
    CHECK(compress::detail::store_usable_scale(room, 0, format, 1e-39F) == 0.0F);
    CHECK(compress::detail::store_usable_scale(room, 0, format, infinity) == 0.0F);
  }
}

TEST_CASE("scale: what a reader accepts", "[compress][fast]") {
  CHECK(look_at(0.0F, 127.0F) == compress::detail::decoding::good);
  CHECK(look_at(2.6e36F, 127.0F) == compress::detail::decoding::good);
  CHECK(look_at(2.7e36F, 127.0F) == compress::detail::decoding::non_finite);
  CHECK(look_at(-1.0F, 1.0F) == compress::detail::decoding::corrupt);
  CHECK(look_at(-0.0F, 1.0F) == compress::detail::decoding::corrupt);
  CHECK(look_at(-infinity, 1.0F) == compress::detail::decoding::non_finite);
}

TEST_CASE("scale: the largest magnitude is found wherever it stands", "[compress][fast]") {
  for (const std::size_t n : {1U, 15U, 16U, 17U, 63U, 64U, 65U, 130U, 200U}) {
    for (std::size_t at = 0; at < n; ++at) {
      std::vector<float> x(n, 0.5F);
      x[at] = -3.0F;
      CHECK(compress::detail::largest_magnitude(x.data(), static_cast<std::int64_t>(n)) == 3.0F);
      x[at] = -std::nanf("");
      CHECK(std::isnan(compress::detail::largest_magnitude(x.data(), static_cast<std::int64_t>(n))));
    }
  }
}

TEST_CASE("scale: sums are those of sum_lanes, bit by bit", "[compress][fast]") {
  namespace lanes = kernels::detail;
  std::vector<float> x(331);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i)) * std::exp2(static_cast<float>(i % 40));
  for (std::int64_t n = 0; n <= 331; ++n) {
    const float expected = lanes::sum_lanes(
        n,
        [&](lanes::f32x8& v, std::int64_t i) {
          std::memcpy(&v, x.data() + i, sizeof v);
          v *= v;
        },
        [&](std::int64_t i) { return x[static_cast<std::size_t>(i)] * x[static_cast<std::size_t>(i)]; });
    const float sum = compress::detail::sum_values(
        x.data(), n, [](lanes::f32x8& v) { v *= v; }, [](float v) { return v * v; });
    CHECK(sum == expected);
  }
}

TEST_CASE("scale: lanes outside of a range become its ends", "[compress][fast]") {
  for (const auto& [least, most] : {std::pair{0, 255}, std::pair{1, 15}, std::pair{-7, 7}}) {
    kernels::detail::i32x16 v;
    for (int lane = 0; lane < 16; ++lane) v[lane] = (lane - 8) * (lane % 3 == 0 ? 40 : lane % 3 == 1 ? 1 : 1 << 20);
    const auto before = v;
    compress::detail::clamp_lanes(v, least, most);
    for (int lane = 0; lane < 16; ++lane) CHECK(v[lane] == std::clamp(before[lane], least, most));
  }
}

TEST_CASE("scale: threads get whole blocks, each once", "[compress][fast]") {
  thread_pool pool{3};
  for (const std::size_t n : {0U, 100U, 16384U, 16385U, 100001U}) {
    std::vector<int> seen(n);
    std::atomic<int> cut_inside{0};
    compress::detail::for_blocks(pool, n, 48, [&](index_range r) {
      if (r.begin % 48 != 0) ++cut_inside;
      for (std::int64_t i = r.begin; i < r.end; ++i) ++seen[static_cast<std::size_t>(i)];
    });
    CHECK(std::count(seen.begin(), seen.end(), 1) == static_cast<std::ptrdiff_t>(n));
    CHECK(cut_inside == 0);
  }
}
