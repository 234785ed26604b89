// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/device/matmul.cuh>

#include <causeway/cuda/bodies/activation_bodies.hpp>

#include "cuda/device_functions.hpp"
#include "cuda/shared_numbers.cuh"

namespace causeway_test {
namespace {

using namespace causeway::cuda;
using causeway::bf16;

constexpr std::int64_t m = 96, n = 64, k = 128;

template <class T>
float f(const T* x, std::int64_t i) {
  return static_cast<float>(x[i]);
}

/// One product: on the device, and row by row here. Inputs a [m, k] or [k, m], b [k, n] or [n, k], c, a vector and a matrix
/// [m, n] lie one after another.
template <class In, class Out>
struct problem {
  shared_numbers<In> in;
  shared_numbers<Out> out;
  matmul_args<In, Out> args;

  static causeway::result<problem> create(matmul_epilogue epilogue, bool transpose_a, bool transpose_b, bool accumulate) {
    CAUSEWAY_ASSIGN(auto in, shared_numbers<In>::create(m * k + k * n));
    CAUSEWAY_ASSIGN(auto out, shared_numbers<Out>::create(2 * m * n + m + n));
    problem made{std::move(in), std::move(out), {}};
    auto& p = made.args;
    p.epilogue = epilogue, p.transpose_a = transpose_a, p.transpose_b = transpose_b, p.accumulate = accumulate;
    p.m = m, p.n = n, p.k = k;
    p.a = made.in.data(), p.lda = transpose_a ? m : k;
    p.b = made.in.data() + m * k, p.ldb = transpose_b ? k : n;
    p.c = made.out.data(), p.ldc = n;
    p.matrix = made.out.data() + m * n, p.ld_matrix = n;
    p.vector = made.out.data() + 2 * m * n;
    return causeway::result<problem>{std::move(made)};
  }

  float a(std::int64_t i, std::int64_t d) const { return f(args.a, args.transpose_a ? d * m + i : i * k + d); }
  float b(std::int64_t d, std::int64_t j) const { return f(args.b, args.transpose_b ? j * k + d : d * n + j); }

  void multiply_here() {
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = args.accumulate ? f(args.c, i * n + j) : 0.0F;
        for (std::int64_t d = 0; d < k; ++d) sum += static_cast<double>(a(i, d)) * static_cast<double>(b(d, j));
        args.c[i * n + j] = Out(finish(static_cast<float>(sum), i, j));
      }
    }
    sums_here();
  }

 private:
  float finish(float v, std::int64_t i, std::int64_t j) {
    if (args.epilogue == matmul_epilogue::bias) return v + f(args.vector, j);
    if (args.epilogue == matmul_epilogue::bias_gelu) {
      v += f(args.vector, j);
      args.matrix[i * n + j] = Out(v);
      return v * detail::gelu_gate(v);
    }
    if (args.epilogue == matmul_epilogue::gelu_gradient) return v * detail::gelu_slope(f(args.matrix, i * n + j));
    return v;
  }

  void sums_here() {
    const bool of_rows = args.epilogue == matmul_epilogue::row_sums_of_a;
    if (!of_rows && args.epilogue != matmul_epilogue::column_sums_of_b) return;
    for (std::int64_t place = 0; place < (of_rows ? m : n); ++place) {
      double sum = 0;
      for (std::int64_t d = 0; d < k; ++d) sum += of_rows ? a(place, d) : b(d, place);
      args.vector[place] = Out(static_cast<float>(sum));
    }
  }
};

template <class In, class Out>
causeway::result<void> compare(comparisons& list, stream& s, matmul& products, matmul_epilogue epilogue, bool transpose_a,
                               bool transpose_b, bool accumulate) {
  CAUSEWAY_ASSIGN(auto got, (problem<In, Out>::create(epilogue, transpose_a, transpose_b, accumulate)));
  CAUSEWAY_ASSIGN(auto expected, (problem<In, Out>::create(epilogue, transpose_a, transpose_b, accumulate)));
  CAUSEWAY_TRY(products.multiply(s, got.args));
  CAUSEWAY_TRY(s.synchronize());
  expected.multiply_here();
  const std::size_t count = 2 * m * n + m + n;
  const std::vector<Out> x(got.out.data(), got.out.data() + count), y(expected.out.data(), expected.out.data() + count);
  const auto number = std::to_string(static_cast<int>(epilogue));
  list.push_back({"epilogue " + number, differing(x, y), distance(x, y, 30.0)});  // products are of the size of 10
  return {};
}

template <class In, class Out>
causeway::result<void> compare_all(comparisons& list, stream& s, matmul& products) {
  using e = matmul_epilogue;
  CAUSEWAY_TRY((compare<In, Out>(list, s, products, e::none, false, false, false)));
  CAUSEWAY_TRY((compare<In, Out>(list, s, products, e::none, true, false, true)));
  CAUSEWAY_TRY((compare<In, Out>(list, s, products, e::bias, false, true, false)));
  CAUSEWAY_TRY((compare<In, Out>(list, s, products, e::column_sums_of_b, true, false, true)));
  CAUSEWAY_TRY((compare<In, Out>(list, s, products, e::row_sums_of_a, true, false, true)));
  if constexpr (std::is_same_v<In, Out>) {
    CAUSEWAY_TRY((compare<In, Out>(list, s, products, e::bias_gelu, false, true, false)));
    CAUSEWAY_TRY((compare<In, Out>(list, s, products, e::gelu_gradient, false, false, false)));
  }
  return {};
}

}  // namespace

causeway::result<comparisons> compare_products() {
  comparisons list;
  CAUSEWAY_ASSIGN(auto s, stream::create());
  CAUSEWAY_ASSIGN(auto products, matmul::create());
  CAUSEWAY_TRY((compare_all<bf16, bf16>(list, s, products)));
  CAUSEWAY_TRY((compare_all<bf16, float>(list, s, products)));
  CAUSEWAY_TRY((compare_all<float, float>(list, s, products)));
  return list;
}

causeway::error error_of_cublas(int status) { return to_error(static_cast<cublasStatus_t>(status), "test"); }

}  // namespace causeway_test
