// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/none.hpp>

#include "compress/codec_checks.hpp"
#include "support/catch.hpp"

using namespace causeway;

TEST_CASE("none: bytes are the values, four each", "[compress][fast]") {
  thread_pool pool{1};
  CHECK(codec_checks::as_ints(codec_checks::encode(compress::none{}, pool, {1.0F, -2.5F})) ==
        std::vector<int>{0, 0, 0x80, 0x3F, 0, 0, 0x20, 0xC0});
  for (const std::size_t n : codec_checks::lengths) {
    const auto x = codec_checks::values(n);
    std::vector<float> back(n);
    REQUIRE(compress::none::decode(pool, codec_checks::encode(compress::none{}, pool, x), back));
    CHECK(codec_checks::same_bits(back, x));
  }
}
