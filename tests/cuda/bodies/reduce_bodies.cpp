// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/bodies/reduce_bodies.hpp>

#include <causeway/kernels/activation.hpp>
#include <causeway/kernels/reduce.hpp>
#include <causeway/optim/clip.hpp>

#include "cuda/body_support.hpp"
#include "cuda/thread_group.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using namespace causeway;
using causeway_test::differing;
using causeway_test::numbers;
using causeway_test::with_group;

template <cuda::summand What>
double total(const std::vector<float>& x, int threads) {
  std::vector<double> partials(static_cast<std::size_t>(cuda::total_blocks));
  double sum = -1.0;
  const cuda::total_partial_body<What> body{x.data(), partials.data(), static_cast<std::int64_t>(x.size())};
  with_group(threads, [&](auto& g) {
    for (std::int64_t block = 0; block < cuda::total_blocks; ++block) {
      if (body.aligned()) {
        body.template run<cuda::pack_width>(g, block);
      } else {
        body.template run<1>(g, block);
      }
    }
    g.sync();
    cuda::total_body{partials.data(), &sum}.run<1>(g, 0);
  });
  return sum;
}

}  // namespace

TEMPLATE_TEST_CASE("cuda reductions: column sums are the CPU's to the bit", "[cuda][fast]", float, bf16) {
  thread_pool pool{1};
  scratch memory;
  for (const std::int64_t rows : {1, 40, 1000}) {
    for (const std::int64_t columns : {4, 13, 64}) {
      const auto dy = numbers<TestType>(rows * columns, 1);
      auto expected = numbers(columns, 2), got = expected;
      kernels::bias_gradient(pool, memory, dy.data(), expected.data(), rows, columns);
      const std::int64_t blocks = cuda::column_blocks(rows);
      std::vector<float> partials(static_cast<std::size_t>(blocks * columns));
      cuda::run_here(cuda::column_partial_body<TestType>{dy.data(), partials.data(), rows, columns}, blocks * columns);
      cuda::run_here(cuda::column_total_body{partials.data(), got.data(), blocks, columns}, columns);
      CHECK(differing(got, expected) == 0);
    }
  }
}

TEST_CASE("cuda reductions: totals are the CPU's to f64 rounding, for any number of elements", "[cuda][fast]") {
  thread_pool pool{1};
  for (const std::int64_t count : {0, 1, 5, 4096, 50'001}) {
    const auto x = numbers(count, 3);
    const double squares = kernels::sum_of_squares(pool, x.data(), count), sum = kernels::sum(pool, x.data(), count);
    for (const int threads : {1, 4}) {
      CHECK(std::fabs(total<cuda::summand::square>(x, threads) - squares) <= 1e-14 * squares);
      CHECK(std::fabs(total<cuda::summand::value>(x, threads) - sum) <= 1e-14 * (1.0 + squares));
    }
  }
}

TEST_CASE("cuda reductions: the factor of clipping is the optimizer's, and NaN for a norm that is none", "[cuda][fast]") {
  for (const double norm : {0.0, 0.3, 1.0, 7.3}) {
    for (const float most : {0.0F, 1.0F, 5.0F}) {
      const double squares = norm * norm;
      float found[2] = {};
      cuda::clip_body{&squares, found, most}(0);
      CHECK(found[0] == static_cast<float>(std::sqrt(squares)));
      CHECK(found[1] == optim::clip_scale(found[0], most));
    }
  }
  for (const double squares : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(), 1e300}) {
    float found[2] = {};
    cuda::clip_body{&squares, found, 1.0F}(0);
    CHECK_FALSE(std::isfinite(found[0]));
    CHECK(std::isnan(found[1]));
  }
}
