// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/fp16.hpp>

#include "compress/codec_checks.hpp"
#include "support/catch.hpp"

#include <causeway/tensor/dtype.hpp>

#include <cmath>

using namespace causeway;

TEST_CASE("fp16: two bytes a value, rounded to nearest even", "[compress][fast]") {
  thread_pool pool{1};
  const std::vector<float> x{1.0F, -2.0F, 65504.0F, 0x1.0p-24F, 1.00048828125F, 0.333333343F};  // the fifth is a tie
  CHECK(codec_checks::as_ints(codec_checks::encode(compress::fp16{}, pool, x)) ==
        std::vector<int>{0x00, 0x3C, 0x00, 0xC0, 0xFF, 0x7B, 0x01, 0x00, 0x00, 0x3C, 0x55, 0x35});
}

TEST_CASE("fp16: relative error at most 2^-11, absolute at most 2^-25 for the smallest", "[compress][fast]") {
  thread_pool pool{1};
  const auto x = codec_checks::values(40001);
  std::vector<float> back(x.size());
  REQUIRE(compress::fp16::decode(pool, codec_checks::encode(compress::fp16{}, pool, x), back));
  std::size_t too_far = 0, other_bits = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::abs(back[i] - x[i]) > std::max(std::abs(x[i]) * 0x1.0p-11F, 0x1.0p-25F)) ++too_far;
    if (back[i] != static_cast<float>(f16{x[i]})) ++other_bits;
  }
  CHECK(too_far == 0);
  CHECK(other_bits == 0);
}

TEST_CASE("fp16: values beyond 65504 are refused, not clipped", "[compress][fast]") {
  thread_pool pool{1};
  std::vector<float> back(2);
  CHECK(compress::fp16::decode(pool, codec_checks::encode(compress::fp16{}, pool, {65519.0F, -65504.0F}), back));
  const auto beyond = codec_checks::encode(compress::fp16{}, pool, {1.0F, -65520.0F});
  CHECK(compress::fp16::decode(pool, beyond, back).error().code == errc::non_finite);
}
