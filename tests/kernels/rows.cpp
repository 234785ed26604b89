// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/rows.hpp>

#include <cmath>
#include <numeric>
#include <vector>

#include "support/catch.hpp"
#include "support/kernel_cases.hpp"

using namespace causeway;
using namespace causeway::kernels;

namespace {

using row = std::vector<float>;

/// What `update(y, level)` makes of `before` at every level: all must agree bit for bit.
template <class Update>
row same_everywhere(const row& before, Update&& update) {
  row first = before;
  update(first, simd_level::portable);
  for (const auto level : test::levels()) {
    row y = before;
    update(y, level);
    INFO(to_string(level) << ", " << y.size() << " elements");
    CHECK(y == first);
  }
  return first;
}

constexpr std::size_t sizes[] = {1, 31, 1000};

}  // namespace

TEST_CASE("rows: blending, compensation and gossip are their equations, the same bits at every level", "[kernels][fast]") {
  for (const std::size_t size : sizes) {
    const row y = test::uniform(size, 1), a = test::uniform(size, 2), b = test::uniform(size, 3),
              v = test::uniform(size, 4);
    const auto n = static_cast<std::int64_t>(size);
    const row blended =
        same_everywhere(y, [&](row& r, simd_level level) { blend(r.data(), 0.3F, a.data(), 1.7F, n, level); });
    const row moved = same_everywhere(y, [&](row& r, simd_level level) {
      compensate(r.data(), a.data(), b.data(), n, {.steps = 3, .lambda = 0.4F}, level);
    });
    const gossip_coefficients c{.alpha = 0.5F, .beta = 0.7F, .gamma = 0.6F};
    row velocity;
    const row shared = same_everywhere(y, [&](row& r, simd_level level) {
      velocity = v;
      gossip_update(r.data(), velocity.data(), a.data(), b.data(), n, c, level);
    });
    for (std::size_t i = 0; i < size; ++i) {
      CHECK(double(blended[i]) == Approx(0.3 * double(y[i]) + 1.7 * double(a[i])).margin(1e-6));
      const double g = (double(b[i]) - double(y[i])) / 3;
      CHECK(double(moved[i]) == Approx(double(a[i]) - 3 * (g + 0.4 * g * g * (double(a[i]) - double(b[i])))).margin(1e-5));
      const double next = 0.5 * double(v[i]) - 0.7 * double(a[i]) + 0.6 * (double(b[i]) - double(y[i]));
      CHECK(double(velocity[i]) == Approx(next).margin(1e-6));
      CHECK(double(shared[i]) == Approx(double(y[i]) + next).margin(1e-6));
    }
  }
}

TEST_CASE("rows: those of the host do what their names say, with any number of threads", "[kernels][fast]") {
  constexpr std::size_t size = 100'003;  // enough for all threads
  const row a = test::uniform(size, 1), b = test::uniform(size, 2), c = test::uniform(size, 3);
  for (const unsigned threads : {1U, 3U}) {
    thread_pool pool{threads};
    const host_rows rows{pool};
    const auto check = [&](const row& y, auto&& expected) {
      std::size_t differing = 0;
      for (std::size_t i = 0; i < size; ++i) differing += y[i] != expected(i) ? 1U : 0U;
      CHECK(differing == 0);
    };
    row y(size);
    REQUIRE(rows.copy(y, a));
    check(y, [&](std::size_t i) { return a[i]; });
    REQUIRE(rows.subtract(y, a, b));
    check(y, [&](std::size_t i) { return a[i] - b[i]; });
    REQUIRE(rows.scale(y, -2.0F));
    check(y, [&](std::size_t i) { return -2.0F * (a[i] - b[i]); });
    REQUIRE(rows.zero(y));
    REQUIRE(rows.add(y, 0.5F, b));
    check(y, [&](std::size_t i) { return 0.5F * b[i]; });
    row expected = y = a;
    REQUIRE(rows.blend(y, 0.3F, b, 0.7F));
    blend(expected.data(), 0.3F, b.data(), 0.7F, std::ssize(expected));
    CHECK(y == expected);
    REQUIRE(rows.compensate(y, b, c, {}));
    compensate(expected.data(), b.data(), c.data(), std::ssize(expected), {});
    CHECK(y == expected);
    row v = c, expected_v = c;
    REQUIRE(rows.gossip(y, v, a, b, {}));
    gossip_update(expected.data(), expected_v.data(), a.data(), b.data(), std::ssize(expected), {});
    CHECK(y == expected);
    CHECK(v == expected_v);
  }
}

TEST_CASE("rows: what is gathered from ranges goes back to them", "[kernels][fast]") {
  thread_pool pool{1};
  const host_rows rows{pool};
  row all(12), part(5);
  std::iota(all.begin(), all.end(), 0.0F);
  const std::vector<index_range> ranges{{1, 3}, {7, 10}};
  REQUIRE(rows.gather(ranges, all, part));
  CHECK(part == row{1, 2, 7, 8, 9});
  REQUIRE(rows.scale(part, -1.0F));
  REQUIRE(rows.scatter(ranges, part, all));
  CHECK(all == row{0, -1, -2, 3, 4, 5, 6, -7, -8, -9, 10, 11});
}
