// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/bodies/dct_body.hpp>

#include <causeway/compress/dct.hpp>

#include "cuda/dct_case.hpp"
#include "cuda/thread_group.hpp"
#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using namespace causeway;
using causeway_test::dct_case;
using causeway_test::differing;

/// All chunks of the row by a group, as cuda::dct does it, in memory that begins as NaN.
void transform(int threads, const dct_case& c, const float* from, std::vector<float>& to, bool forward) {
  compress::detail::dct_basis columns, rows;
  for (const auto& grid : compress::cut_into_chunks(c.how.chunks(), c.matrices, c.n)) {
    compress::detail::fill_dct_basis(columns, grid.columns);
    compress::detail::fill_dct_basis(rows, grid.rows);
    cuda::dct_body body{.grid = grid, .from = from, .to = to.data()};
    body.right = (forward ? columns.transposed : columns.forward).at;
    body.left = grid.rows == 1 ? nullptr : (forward ? rows.forward : rows.transposed).at;
    std::vector<float> memory(body.working_bytes() / sizeof(float), std::numeric_limits<float>::quiet_NaN());
    causeway_test::with_group(threads, [&](auto& g) {
      for (std::int64_t item = 0; item < body.items(); ++item) body.run<1>(g, item, memory.data());
    });
  }
}

void compare(const dct_case& c, int threads) {
  CAPTURE(c.n, threads);
  thread_pool pool{1};
  const compress::message_context ctx{.pool = pool, .matrices = c.matrices};
  const auto x = causeway_test::numbers(c.n, 3);
  std::vector<float> expected(c.n), got(c.n);
  c.how.forward(ctx, x, expected);
  transform(threads, c, x.data(), got, true);
  CHECK(differing(got, expected) == 0);
  c.how.inverse(ctx, expected);
  transform(threads, c, got.data(), got, false);
  CHECK(differing(got, expected) == 0);
}

}  // namespace

TEST_CASE("cuda DCT: both ways it has the CPU's bits, for tiles and runs of any size", "[cuda][fast]") {
  for (const int threads : {1, 3, 8}) {
    for (const auto& c : causeway_test::dct_cases()) compare(c, threads);
  }
}

TEST_CASE("cuda DCT: one coefficient of many is decoded to the CPU's bits", "[cuda][fast]") {
  const dct_case c{.matrices = {{0, 128, 64}}, .n = 128 * 64};
  thread_pool pool{1};
  std::vector<float> expected(c.n), got(c.n);
  expected[777] = got[777] = -0.3F;
  c.how.inverse({.pool = pool, .matrices = c.matrices}, expected);
  transform(2, c, got.data(), got, false);
  CHECK(differing(got, expected) == 0);
}
