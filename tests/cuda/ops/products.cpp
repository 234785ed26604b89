// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/ops/products.hpp>

#include <causeway/kernels/backend.hpp>
#include <causeway/kernels/packed_gemm.hpp>
#include <causeway/tensor/scratch.hpp>

#include "cuda/body_support.hpp"
#include "cuda/host_queue.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace {

using namespace causeway;
using causeway_test::distance;
using kernels::activation;

enum class extra { none, bias, gelu, gelu_kept, residual, residual_in_place, accumulate };

template <class T>
std::vector<T> values_of(std::int64_t count, std::uint64_t seed) {
  rng draw{seed};
  std::vector<T> v;
  for (std::int64_t i = 0; i < count; ++i) v.push_back(T(draw.normal()));
  return v;
}

template <class In, class Out>
struct product_case {
  std::vector<In> a, b;
  std::vector<float> bias, residual;
  std::vector<Out> c, before;
  kernels::gemm_args<In, Out> args;

  product_case(std::int64_t m, std::int64_t n, std::int64_t k, bool ta, bool tb, extra what)
      : a{values_of<In>(m * k, 1)},
        b{values_of<In>(k * n, 2)},
        bias{values_of<float>(n, 3)},
        residual{values_of<float>(m * n, 4)},
        c{values_of<Out>(m * n, 5)},
        before(static_cast<std::size_t>(m * n), Out(std::numeric_limits<float>::quiet_NaN())) {
    args.transpose_a = ta, args.transpose_b = tb, args.m = m, args.n = n, args.k = k;
    args.a = a.data(), args.lda = ta ? m : k, args.b = b.data(), args.ldb = tb ? k : n;
    args.c = c.data(), args.ldc = n;
    if (what == extra::accumulate) args.accumulate = true;
    if (what == extra::bias || what == extra::gelu || what == extra::gelu_kept || what == extra::residual) {
      args.bias = bias.data();
    }
    if (what == extra::gelu || what == extra::gelu_kept) args.act = activation::gelu;
    if (what == extra::gelu_kept) args.pre_activation = before.data();
    if constexpr (std::is_same_v<Out, float>) {
      if (what == extra::residual) args.residual = residual.data(), args.ld_residual = n;
      if (what == extra::residual_in_place) args.residual = c.data(), args.ld_residual = n;
    }
  }
};

template <class In, class Out>
void compare(std::int64_t n, bool ta, bool tb, extra what) {
  CAPTURE(n, ta, tb, static_cast<int>(what), sizeof(In), sizeof(Out));
  product_case<In, Out> expected{5, n, 7, ta, tb, what}, got{5, n, 7, ta, tb, what};
  thread_pool pool{1};
  scratch memory;
  kernels::packed_gemm{}.multiply(pool, memory, expected.args);
  causeway_test::host_queue q{std::make_shared<causeway_test::queue_report>()};
  REQUIRE(cuda::multiply(q, cuda::product{got.args}));
  const double tolerance = std::is_same_v<Out, float> ? 1e-5 : 2e-2;  // a bias of bf16, two roundings
  CHECK(distance(got.c, expected.c) < tolerance);
  if (what == extra::gelu_kept) CHECK(distance(got.before, expected.before) < tolerance);
}

template <class T>
void compare_gelu_gradient(std::int64_t n, bool fused) {
  CAPTURE(n, fused, sizeof(T));
  product_case<T, T> expected{5, n, 7, false, false, extra::none}, got{5, n, 7, false, false, extra::none};
  const auto x = values_of<T>(5 * n, 6);
  kernels::cpu_backend{}.multiply_gelu_gradient(expected.args, x.data());
  const auto report = std::make_shared<causeway_test::queue_report>();
  report->gelu_in_products = fused;
  causeway_test::host_queue q{report};
  REQUIRE(cuda::multiply_gelu_gradient(q, cuda::product{got.args}, x.data()));
  CHECK(distance(got.c, expected.c) < (std::is_same_v<T, float> ? 1e-5 : 2e-2));
}

template <class In, class Out>
void compare_all() {
  for (const std::int64_t n : {8, 11}) {  // rows that GELU can be fused for, and others
    for (const extra what : {extra::none, extra::bias, extra::gelu, extra::gelu_kept, extra::residual,
                             extra::residual_in_place, extra::accumulate}) {
      for (const int transposed : {0, 1, 2}) compare<In, Out>(n, transposed == 1, transposed == 2, what);
    }
  }
}

}  // namespace

TEST_CASE("cuda products: with bias, GELU, residual and accumulation, as the CPU's", "[cuda][fast]") {
  compare_all<float, float>();
  compare_all<bf16, float>();
  compare_all<bf16, bf16>();
}

TEST_CASE("cuda products: through the slope of GELU, as the CPU's", "[cuda][fast]") {
  for (const std::int64_t n : {8, 11}) {  // rows that it can be fused for, and others
    for (const bool fused : {true, false}) {
      compare_gelu_gradient<float>(n, fused);
      compare_gelu_gradient<bf16>(n, fused);
    }
  }
}

TEST_CASE("cuda products: a library without an epilogue for GELU costs passes and no error", "[cuda][fast]") {
  product_case<bf16, bf16> with{5, 8, 7, false, false, extra::gelu_kept}, without{5, 8, 7, false, false, extra::gelu_kept};
  const auto report = std::make_shared<causeway_test::queue_report>();
  causeway_test::host_queue q{report};
  REQUIRE(cuda::multiply(q, cuda::product{with.args}));
  report->gelu_in_products = false;
  REQUIRE(cuda::multiply(q, cuda::product{without.args}));
  CHECK(distance(with.c, without.c) < 2e-2);
  CHECK(with.before == without.before);
}

TEST_CASE("cuda products: nothing to do is no error", "[cuda][fast]") {
  causeway_test::host_queue q{std::make_shared<causeway_test::queue_report>()};
  CHECK(cuda::multiply(q, cuda::product{kernels::gemm_args<float, float>{}}));
}
