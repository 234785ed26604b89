// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/shared_sum.hpp>

#include <causeway/core/rng.hpp>

#include <cmath>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using collective::detail::shared_place;
using collective::detail::shared_sum;

namespace {

std::vector<float> values_of(std::uint32_t rank, std::uint64_t round, std::size_t count) {
  std::vector<float> values(count);
  rng random{rank + 3, round};
  for (float& v : values) v = random.uniform() - 0.5F;
  return values;
}

std::vector<float> sum_in_order(std::uint32_t ranks, std::uint64_t round, std::size_t count, float factor) {
  std::vector<float> all = values_of(0, round, count);
  for (std::uint32_t r = 1; r < ranks; ++r) {
    const auto more = values_of(r, round, count);
    for (std::size_t i = 0; i < count; ++i) all[i] += more[i];
  }
  for (float& v : all) v *= factor;
  return all;
}

void finish(shared_sum& s, thread_pool& pool) {
  for (bool moved = false; !s.look(pool, moved);) std::this_thread::yield();
}

/// Each rank with a mapping of its own, as processes have it.
std::vector<std::unique_ptr<shared_sum>> joined(std::uint32_t ranks) {
  std::vector<std::unique_ptr<shared_sum>> all;
  shared_place place;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    auto one = r == 0 ? shared_sum::make(ranks, place) : shared_sum::join(r, ranks, place);
    REQUIRE(one);
    all.push_back(std::move(*one));
  }
  return all;
}

}  // namespace

TEST_CASE("shared sum: sums of any length, one after another, have the bits of the order of the ranks", "[collective]") {
  const auto ranks = GENERATE(2U, 3U, 5U);
  const auto all = joined(ranks);
  const std::vector<std::size_t> counts{1, 7, 4000, 32'768, 32'769, 100'003, 2, 3 * 32'768, 5};
  std::vector<std::vector<std::vector<float>>> found(ranks);
  std::vector<std::jthread> threads;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      thread_pool pool{1};
      for (std::uint64_t round = 0; round < counts.size(); ++round) {
        auto mine = values_of(r, round, counts[round]);
        all[r]->begin(mine, 0.25F);
        finish(*all[r], pool);
        found[r].push_back(std::move(mine));
      }
    });
  }
  threads.clear();
  for (std::uint64_t round = 0; round < counts.size(); ++round) {
    INFO(counts[round] << " values of " << ranks);
    const auto expected = sum_in_order(ranks, round, counts[round], 0.25F);
    for (std::uint32_t r = 0; r < ranks; ++r) CHECK((found[r][round] == expected));
  }
}

TEST_CASE("shared sum: nobody's values change before all have come", "[collective]") {
  const auto all = joined(2);
  thread_pool pool{1};
  std::vector<float> first{1, 2}, second{3, 4};
  bool moved = false;
  all[0]->begin(first, 1.0F);
  CHECK_FALSE(all[0]->look(pool, moved));
  CHECK(first == std::vector<float>{1, 2});
  CHECK(all[0]->under_way());
  all[1]->begin(second, 1.0F);
  CHECK(all[1]->look(pool, moved));
  CHECK(all[0]->look(pool, moved));
  CHECK(moved);
  CHECK(first == std::vector<float>{4, 6});
  CHECK(second == first);
  CHECK_FALSE(all[0]->under_way());
}

TEST_CASE("shared sum: what is not finite stays so, and its neighbours are right", "[collective]") {
  const auto all = joined(2);
  thread_pool pool{1};
  std::vector<float> first(50'000, 1.0F), second(50'000, 2.0F);
  first[3] = std::numeric_limits<float>::infinity();
  second[49'999] = std::numeric_limits<float>::quiet_NaN();
  all[0]->begin(first, 1.0F);
  all[1]->begin(second, 1.0F);
  bool done = false;
  for (bool moved = false; !done;) {
    const bool one = all[0]->look(pool, moved);
    done = all[1]->look(pool, moved) && one;
  }
  CHECK(std::isinf(first[3]));
  CHECK(std::isnan(second[49'999]));
  CHECK(first[4] == 3.0F);
  CHECK(second[49'998] == 3.0F);
}

TEST_CASE("shared sum: memory that is not the job's is refused", "[collective]") {
  shared_place place;
  const auto made = shared_sum::make(2, place);
  REQUIRE(made);
  shared_place other = place;
  other.mark ^= 1U;
  CHECK(shared_sum::join(1, 2, other).error().code == errc::io_failed);
  other = place;
  other.descriptor = 100'000;
  CHECK(shared_sum::join(1, 2, other).error().code == errc::io_failed);
  CHECK(shared_sum::join(1, 3, place).error().code == errc::io_failed);  // of another size
  CHECK(shared_sum::join(1, 2, place));
}
