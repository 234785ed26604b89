// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/bodies/norm_bodies.hpp>

#include <causeway/cuda/bodies/reduce_bodies.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/kernels/norm.hpp>

#include "cuda/body_support.hpp"
#include "cuda/thread_group.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <type_traits>
#include <vector>

namespace {

using namespace causeway;
using causeway_test::differing;
using causeway_test::distance;
using causeway_test::numbers;
using causeway_test::with_group;

template <class T>
constexpr double near = std::is_same_v<T, float> ? 4e-6 : 0x1p-7;

/// Numbers, without those that would make a row's variance that of one outlier.
template <class T = float>
std::vector<T> plain(std::int64_t count, std::uint64_t seed, float spread = 1.0F) {
  auto values = numbers<T>(count + 6, seed, spread);
  values.erase(values.begin(), values.begin() + 6);
  return values;
}

/// All rows by a group, with packs where the body allows it.
template <class Body>
void over_rows(int threads, std::int64_t rows, const Body& body) {
  with_group(threads, [&](auto& g) {
    for (std::int64_t row = 0; row < rows; ++row) {
      if (body.aligned()) {
        body.template run<cuda::pack_width>(g, row);
      } else {
        body.template run<1>(g, row);
      }
    }
  });
}

template <bool Centered, class Act>
struct case_of {
  std::int64_t rows, columns;
  std::vector<float> x = plain(rows * columns, 1), gain = plain(columns, 2), bias = plain(columns, 3);
  std::vector<Act> y = std::vector<Act>(x.size());
  std::vector<float> mean = std::vector<float>(static_cast<std::size_t>(rows)), rstd = mean;

  void forward_on_cpu(thread_pool& pool) {
    if constexpr (Centered) {
      kernels::layer_norm_forward(pool, x.data(), gain.data(), bias.data(), y.data(), mean.data(), rstd.data(), rows,
                                  columns, 1e-5F);
    } else {
      kernels::rms_norm_forward(pool, x.data(), gain.data(), y.data(), rstd.data(), rows, columns, 1e-5F);
    }
  }
  void forward(int threads, const Act* branch, float* sum) {
    cuda::norm_forward_body<Centered, Act> body{.x = x.data(), .branch = branch, .sum = sum, .gain = gain.data()};
    body.y = y.data(), body.rstd = rstd.data(), body.columns = columns, body.epsilon = 1e-5F;
    if constexpr (Centered) body.bias = bias.data(), body.mean = mean.data();
    over_rows(threads, rows, body);
  }
};

template <bool Centered, class Act>
void check_forward() {
  thread_pool pool{1};
  for (const int threads : {1, 3, 8}) {
    for (const std::int64_t columns : {6, 64, 100}) {
      case_of<Centered, Act> expected{.rows = 5, .columns = columns}, got{.rows = 5, .columns = columns};
      expected.forward_on_cpu(pool);
      got.forward(threads, nullptr, nullptr);
      CHECK(distance(got.y, expected.y) < near<Act>);
      CHECK(distance(got.rstd, expected.rstd) < near<float>);
      CHECK(distance(got.mean, expected.mean) < near<float>);

      // with a branch of the residual stream, in place
      const auto branch = plain<Act>(5 * columns, 4);
      std::vector<float> wide(branch.size());
      kernels::convert(pool, branch.data(), wide.data(), 5 * columns);
      kernels::add(pool, expected.x.data(), expected.x.data(), wide.data(), 5 * columns);
      expected.forward_on_cpu(pool);
      got.forward(threads, branch.data(), got.x.data());
      CHECK(differing(got.x, expected.x) == 0);
      CHECK(distance(got.y, expected.y) < near<Act>);
    }
  }
}

template <bool Centered, class Act>
void check_backward(std::int64_t rows, std::int64_t columns, int threads, bool accumulate) {
  thread_pool pool{1};
  scratch memory;
  case_of<Centered, Act> state{.rows = rows, .columns = columns};
  state.forward_on_cpu(pool);
  const auto dy = plain<Act>(rows * columns, 5);
  auto dx = plain(rows * columns, 6), dgain = plain(columns, 7), dbias = plain(columns, 8);
  auto expected_dx = dx, expected_dgain = dgain, expected_dbias = dbias;
  if constexpr (Centered) {
    kernels::layer_norm_backward(pool, memory, state.x.data(), state.gain.data(), state.mean.data(), state.rstd.data(),
                                 dy.data(), expected_dx.data(), accumulate, expected_dgain.data(), expected_dbias.data(),
                                 rows, columns);
  } else {
    kernels::rms_norm_backward(pool, memory, state.x.data(), state.gain.data(), state.rstd.data(), dy.data(),
                               expected_dx.data(), accumulate, expected_dgain.data(), rows, columns);
  }

  const std::int64_t blocks = cuda::norm_blocks(rows);
  cuda::norm_backward_body<Centered, Act> body{.x = state.x.data(), .gain = state.gain.data(), .mean = state.mean.data()};
  body.rstd = state.rstd.data(), body.dy = dy.data(), body.dx = dx.data(), body.accumulate = accumulate;
  body.rows = rows, body.columns = columns;
  const std::int64_t stride = body.arrays * columns;
  std::vector<float> partials(static_cast<std::size_t>(blocks * stride));
  body.partials = partials.data();
  std::vector<float> working(body.working_bytes() / sizeof(float));
  with_group(threads, [&](auto& g) {
    for (std::int64_t block = 0; block < blocks; ++block) {
      if (body.aligned()) {
        body.template run<cuda::pack_width>(g, block, working.data());
      } else {
        body.template run<1>(g, block, working.data());
      }
      g.sync();
    }
  });
  cuda::run_here(cuda::column_total_body{partials.data(), dgain.data(), blocks, stride}, columns);
  if constexpr (Centered) {
    cuda::run_here(cuda::column_total_body{partials.data() + columns, dbias.data(), blocks, stride}, columns);
  }
  CHECK(distance(dx, expected_dx) < near<float>);
  CHECK(distance(dgain, expected_dgain) < 4 * near<float>);
  CHECK(distance(dbias, expected_dbias) < 4 * near<float>);
}

}  // namespace

TEMPLATE_TEST_CASE("cuda norms: layer norm is the CPU's, with and without a sum before it", "[cuda][fast]", float, bf16) {
  check_forward<true, TestType>();
}

TEMPLATE_TEST_CASE("cuda norms: RMS norm is the CPU's, with and without a sum before it", "[cuda][fast]", float, bf16) {
  check_forward<false, TestType>();
}

TEMPLATE_TEST_CASE("cuda norms: gradients are the CPU's", "[cuda][fast]", float, bf16) {
  for (const int threads : {1, 5}) {
    for (const bool accumulate : {false, true}) {
      check_backward<true, TestType>(70, 64, threads, accumulate);
      check_backward<true, TestType>(3, 7, threads, accumulate);
      check_backward<false, TestType>(70, 64, threads, accumulate);
      check_backward<false, TestType>(33, 9, threads, accumulate);
    }
  }
}

TEST_CASE("cuda norms: a row far from zero keeps its variance", "[cuda][fast]") {
  case_of<true, float> state{.rows = 1, .columns = 64};
  for (std::size_t i = 0; i < 64; ++i) state.x[i] = 1000.0F + static_cast<float>(i % 2);  // variance 1/4
  state.forward(4, nullptr, nullptr);
  CHECK(state.mean[0] == 1000.5F);
  CHECK(distance(state.rstd, {1.99996F}) < 1e-6);
}
