// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/bf16.hpp>

#include "compress/codec_checks.hpp"
#include "support/catch.hpp"

#include <causeway/tensor/dtype.hpp>

#include <cmath>

using namespace causeway;

TEST_CASE("bf16: two bytes a value, the upper half of f32, rounded to nearest even", "[compress][fast]") {
  thread_pool pool{1};
  const std::vector<float> x{1.0F, -2.0F, 1.00390625F, 1.01171875F, 3.1415927F};  // the third and fourth are ties
  CHECK(codec_checks::as_ints(codec_checks::encode(compress::bf16{}, pool, x)) ==
        std::vector<int>{0x80, 0x3F, 0x00, 0xC0, 0x80, 0x3F, 0x82, 0x3F, 0x49, 0x40});
}

TEST_CASE("bf16: relative error at most 2^-8, and as the element type converts", "[compress][fast]") {
  thread_pool pool{1};
  const auto x = codec_checks::values(40001);
  std::vector<float> back(x.size());
  REQUIRE(compress::bf16::decode(pool, codec_checks::encode(compress::bf16{}, pool, x), back));
  std::size_t too_far = 0, other_bits = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::abs(back[i] - x[i]) > std::abs(x[i]) * 0x1.0p-8F) ++too_far;
    if (back[i] != static_cast<float>(causeway::bf16{x[i]})) ++other_bits;
  }
  CHECK(too_far == 0);
  CHECK(other_bits == 0);
}

TEST_CASE("bf16: what rounds beyond the largest value is refused", "[compress][fast]") {
  thread_pool pool{1};
  std::vector<float> back(1);
  CHECK(compress::bf16::decode(pool, codec_checks::encode(compress::bf16{}, pool, {3.38e38F}), back));
  const auto beyond = codec_checks::encode(compress::bf16{}, pool, {3.4e38F});
  CHECK(compress::bf16::decode(pool, beyond, back).error().code == errc::non_finite);
}
