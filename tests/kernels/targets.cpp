// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/targets.hpp>

#include "support/catch.hpp"
#include "support/kernel_cases.hpp"

#include <atomic>

using namespace causeway;
using namespace causeway::kernels;

namespace {

template <bool Exact>
struct square_sum {
  static constexpr bool exact = Exact;
  CAUSEWAY_ALWAYS_INLINE static std::int64_t run(std::int64_t a, std::int64_t b) { return a * a + b * b; }
};

struct has_wide_form {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static int run() { return 1; }
  CAUSEWAY_ALWAYS_INLINE static int run_wide() { return 2; }
};

}  // namespace

TEST_CASE("targets: dispatch returns what the kernel returns at every level", "[kernels][fast]") {
  for (const auto level : test::levels()) {
    CHECK(kernels::detail::dispatch<square_sum<true>>(level, std::int64_t{3}, std::int64_t{4}) == 25);
    CHECK(kernels::detail::dispatch<square_sum<false>>(level, std::int64_t{3}, std::int64_t{4}) == 25);
  }
  CHECK(kernels::detail::dispatch<square_sum<true>>(detect_simd_level(), std::int64_t{1}, std::int64_t{2}) == 5);
}

TEST_CASE("targets: a kernel's wide form runs where registers have 64 bytes, and nowhere else", "[kernels][fast]") {
  for (const auto level : test::levels()) {
    CHECK(kernels::detail::dispatch<has_wide_form>(level) == (level >= simd_level::avx512 ? 2 : 1));
  }
}

TEST_CASE("targets: elements and rows are visited once, in parts that share no cache line", "[kernels][fast]") {
  thread_pool pool{3};
  for (const std::int64_t count : {0, 1, 16384, 16385, 100001}) {
    std::vector<int> visits(static_cast<std::size_t>(count), 0);
    std::atomic<int> misaligned{0};
    kernels::detail::for_elements(pool, count, [&](index_range part) {
      if (part.begin % 64 != 0) ++misaligned;
      for (std::int64_t i = part.begin; i < part.end; ++i) ++visits[static_cast<std::size_t>(i)];
    });
    CHECK(std::all_of(visits.begin(), visits.end(), [](int n) { return n == 1; }));
    CHECK(misaligned == 0);
  }
  for (const std::int64_t rows : {0, 1, 7, 1000}) {
    std::vector<int> visits(static_cast<std::size_t>(rows), 0);
    kernels::detail::for_rows(pool, rows, 100, [&](index_range part) {
      for (std::int64_t i = part.begin; i < part.end; ++i) ++visits[static_cast<std::size_t>(i)];
    });
    CHECK(std::all_of(visits.begin(), visits.end(), [](int n) { return n == 1; }));
  }
}

TEST_CASE("targets: little work stays with the caller", "[kernels][fast]") {
  thread_pool pool{3};
  std::atomic<int> parts{0};
  kernels::detail::for_elements(pool, kernels::detail::smallest_share, [&](index_range) { ++parts; });
  CHECK(parts == 1);
  kernels::detail::for_rows(pool, 100, 10, [&](index_range) { ++parts; });
  CHECK(parts == 2);
  kernels::detail::for_rows(pool, 100, 10000, [&](index_range) { ++parts; });
  CHECK(parts == 2 + 4 * 3);  // four for each thread
}
