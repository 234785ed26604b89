// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/bodies/mean_bodies.hpp>

#include <causeway/collective/aggregator.hpp>
#include <causeway/compress/message.hpp>
#include <causeway/compress/none.hpp>

#include "cuda/body_support.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <limits>
#include <vector>

using namespace causeway;
using causeway_test::differing;
using causeway_test::numbers;

TEST_CASE("cuda means: quotients, factors and signs have the bits of an aggregator", "[cuda][fast]") {
  constexpr std::size_t n = 1'003;
  thread_pool pool{1};
  const compress::message_context ctx{.pool = pool};
  const compress::as_message<compress::none> codec;
  for (const float factor : {1.0F, 0.3F}) {
    for (const bool with_counts : {false, true}) {
      std::vector<float> counts = numbers(n, 1), expected = numbers(n, 2), got = expected;
      collective::aggregation<compress::as_message<compress::none>, compress::message_context> all{
          codec, ctx, {}, 1.0, factor, 2, expected, {}, {}};
      REQUIRE_FALSE(
          collective::detail::divide(all, with_counts ? std::span<const float>{counts} : std::span<const float>{}, factor));
      std::uint32_t found = 0;
      cuda::run_here(cuda::divide_body{got.data(), with_counts ? counts.data() : nullptr, factor, &found}, n);
      CHECK(found == 0);
      CHECK(differing(got, expected) == 0);
      collective::detail::to_signs(all);
      cuda::run_here(cuda::signs_body{got.data()}, n);
      CHECK(differing(got, expected) == 0);
    }
  }
}

TEST_CASE("cuda means: what is not finite is found, wherever it is", "[cuda][fast]") {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 3e38F}) {
    for (std::size_t at = 0; at < 9; ++at) {
      std::vector<float> x(9, 1.0F);
      x[at] = bad;
      std::uint32_t found = 0;
      cuda::run_here(cuda::divide_body{x.data(), nullptr, 2.0F, &found}, x.size());
      CHECK(found == static_cast<std::uint32_t>(compress::detail::decoding::non_finite));
    }
  }
}
