// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/sum.hpp>

#include "collective/peers.hpp"
#include "support/catch.hpp"
#include "support/simd_levels.hpp"

#include <limits>
#include <vector>

using namespace causeway;
using kernels::simd_level;

TEST_CASE("sum of parts: equals a plain loop bit for bit at every level, length and thread count", "[collective][fast]") {
  const std::size_t count = GENERATE(std::size_t{1}, std::size_t{15}, std::size_t{16}, std::size_t{1023}, std::size_t{1024},
                                     std::size_t{1025}, std::size_t{50021});
  const std::size_t peers = GENERATE(std::size_t{1}, std::size_t{2}, std::size_t{5});
  const float factor = GENERATE(1.0F, 0.2F);
  std::vector<std::vector<float>> all;
  std::vector<const float*> parts;
  for (std::size_t p = 0; p < peers; ++p) all.push_back(peer_threads::values_of(static_cast<net::peer_index>(p), count));
  for (const auto& values : all) parts.push_back(values.data());
  std::vector<float> expected(count);
  for (std::size_t i = 0; i < count; ++i) {
    float sum = all[0][i];
    for (std::size_t p = 1; p < peers; ++p) sum += all[p][i];
    expected[i] = sum * factor;
  }
  for (const simd_level level : support::simd_levels()) {
    for (const unsigned threads : {1U, 3U}) {
      thread_pool pool{threads};
      std::vector<float> out(count + 1, -7.0F);
      REQUIRE(collective::sum_parts(pool, parts, factor, out.data(), static_cast<std::int64_t>(count), level));
      CHECK(out.back() == -7.0F);
      out.pop_back();
      CHECK(peer_threads::same_bits(out, expected));
    }
  }
}

TEST_CASE("sum of parts: a sum that is not finite is reported, and the part that caused it is still there to be found",
          "[collective][fast]") {
  constexpr std::size_t count = 5000;
  const std::size_t at = GENERATE(std::size_t{0}, std::size_t{1023}, std::size_t{4999});
  thread_pool pool{1};
  for (const simd_level level : support::simd_levels()) {
    auto mine = peer_threads::values_of(0, count), theirs = peer_threads::values_of(1, count);
    mine[at] = std::numeric_limits<float>::infinity();
    theirs[at] = -std::numeric_limits<float>::infinity();
    const float* const parts[] = {mine.data(), theirs.data()};
    CHECK_FALSE(collective::sum_parts(pool, parts, 1.0F, mine.data(), count, level));
    CHECK_FALSE(collective::finite_values(mine, level));
    CHECK(mine[at] == std::numeric_limits<float>::infinity());
    CHECK_FALSE(collective::finite_values(theirs, level));
  }
}

TEST_CASE("finite values: every position and every kind of value", "[collective][fast]") {
  for (const simd_level level : support::simd_levels()) {
    std::vector<float> values(100, std::numeric_limits<float>::max());
    CHECK(collective::finite_values(values, level));
    CHECK(collective::finite_values({}, level));
    for (std::size_t i = 0; i < values.size(); ++i) {
      for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN()}) {
        auto changed = values;
        changed[i] = bad;
        CHECK_FALSE(collective::finite_values(changed, level));
      }
    }
  }
}

TEST_CASE("copy finite: copies every bit, and sees what is not finite wherever it is", "[collective][fast]") {
  constexpr std::size_t count = 40000;  // more than one piece of work
  thread_pool pool{2};
  for (const simd_level level : support::simd_levels()) {
    auto values = peer_threads::values_of(0, count);
    std::vector<float> copy(count);
    CHECK(collective::copy_finite(pool, values, copy, level));
    CHECK(copy == values);
    for (const std::size_t at : {std::size_t{0}, std::size_t{16384}, count - 1}) {
      auto changed = values;
      changed[at] = std::numeric_limits<float>::quiet_NaN();
      CHECK_FALSE(collective::copy_finite(pool, changed, copy, level));
      changed[at] = -std::numeric_limits<float>::infinity();
      CHECK_FALSE(collective::copy_finite(pool, changed, copy, level));
      CHECK(copy == changed);
    }
  }
  CHECK(collective::copy_finite(pool, {}, {}));
}
