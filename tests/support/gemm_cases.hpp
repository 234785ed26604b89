// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_GEMM_CASES_HPP
#define CAUSEWAY_TESTS_SUPPORT_GEMM_CASES_HPP

// Matrix products of awkward shapes, checked against a triple loop in double precision. Every implementation of Gemm runs
// the same cases.

#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/gemm.hpp>
#include <causeway/tensor/dtype.hpp>
#include <causeway/tensor/scratch.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

namespace causeway::tests::gemm {

/// What a product is asked to do beyond op(A) op(B).
enum class ending { plain, accumulate, accumulate_bias, bias, bias_gelu_saved, gelu, residual, residual_in_place };

inline constexpr std::initializer_list<ending> all_endings = {
    ending::plain,           ending::accumulate, ending::accumulate_bias, ending::bias,
    ending::bias_gelu_saved, ending::gelu,       ending::residual,        ending::residual_in_place};

inline const char* to_string(ending e) {
  static constexpr const char* names[] = {"plain", "accumulate",        "accumulate and bias", "bias", "bias, gelu, saved",
                                          "gelu",  "bias and residual", "residual in place"};
  return names[static_cast<int>(e)];
}

struct shape {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
  std::int64_t extra = 0;  ///< elements between the end of a row and the start of the next
};

template <class T>
std::vector<T> random_values(std::int64_t count, std::uint64_t seed) {
  std::vector<T> values(static_cast<std::size_t>(count));
  std::uint64_t state = seed * 0x9E3779B97F4A7C15ULL + 1;
  for (auto& v : values) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    v = static_cast<T>(static_cast<float>(static_cast<double>(state >> 40U) / 8388608.0 - 1.0));
  }
  return values;
}

/// For each element of C its sum, and the size that errors are measured by.
using reference = std::vector<std::pair<double, double>>;

/// One product with its operands, result and expectation.
template <class In, class Out>
struct product {
  shape s;
  ending end;
  std::vector<In> a, b;
  std::vector<Out> c, before, saved;
  std::vector<float> bias, residual;
  std::int64_t ldc, ld_residual;

  product(shape what, ending e) : s{what}, end{e}, ldc{what.n + what.extra}, ld_residual{what.n + 2 * what.extra} {
    const std::int64_t a_rows = s.transpose_a ? s.k : s.m;
    const std::int64_t b_rows = s.transpose_b ? s.n : s.k;
    a = random_values<In>(a_rows * lda(), 1);
    b = random_values<In>(b_rows * ldb(), 2);
    c = random_values<Out>(s.m * ldc, 3);
    saved = random_values<Out>(s.m * ldc, 4);
    bias = random_values<float>(s.n, 5);
    residual = random_values<float>(s.m * ld_residual, 6);
    before = c;
  }

  [[nodiscard]] std::int64_t lda() const { return (s.transpose_a ? s.m : s.k) + s.extra; }
  [[nodiscard]] std::int64_t ldb() const { return (s.transpose_b ? s.k : s.n) + s.extra; }
  [[nodiscard]] bool has_bias() const {
    return end == ending::bias || end == ending::bias_gelu_saved || end == ending::residual ||
           end == ending::accumulate_bias;
  }
  [[nodiscard]] bool has_gelu() const { return end == ending::gelu || end == ending::bias_gelu_saved; }
  [[nodiscard]] bool adds_to_c() const { return end == ending::accumulate || end == ending::accumulate_bias || in_place(); }
  [[nodiscard]] bool in_place() const { return end == ending::residual_in_place && std::is_same_v<Out, float>; }

  kernels::gemm_args<In, Out> args() {
    kernels::gemm_args<In, Out> g{.transpose_a = s.transpose_a,
                                  .transpose_b = s.transpose_b,
                                  .m = s.m,
                                  .n = s.n,
                                  .k = s.k,
                                  .a = a.data(),
                                  .lda = lda(),
                                  .b = b.data(),
                                  .ldb = ldb(),
                                  .c = c.data(),
                                  .ldc = ldc};
    g.accumulate = end == ending::accumulate || end == ending::accumulate_bias;
    if (has_bias()) g.bias = bias.data();
    if (has_gelu()) g.act = kernels::activation::gelu;
    if (end == ending::bias_gelu_saved) g.pre_activation = saved.data();
    if (end == ending::residual) {
      g.residual = residual.data();
      g.ld_residual = ld_residual;
    }
    if constexpr (std::is_same_v<Out, float>) {
      if (in_place()) {
        g.residual = c.data();
        g.ld_residual = ldc;
      }
    }
    return g;
  }

  /// op(A) op(B) at one place, and the sum of the magnitudes of its terms (what rounding errors scale with).
  std::pair<double, double> linear(std::int64_t i, std::int64_t j) const {
    double sum = 0;
    double size = 0;
    for (std::int64_t p = 0; p < s.k; ++p) {
      const auto x = static_cast<float>(a[static_cast<std::size_t>(s.transpose_a ? p * lda() + i : i * lda() + p)]);
      const auto y = static_cast<float>(b[static_cast<std::size_t>(s.transpose_b ? j * ldb() + p : p * ldb() + j)]);
      sum += static_cast<double>(x) * static_cast<double>(y);
      size += std::abs(static_cast<double>(x) * static_cast<double>(y));
    }
    return {sum, size + 1.0};
  }

  [[nodiscard]] reference linear() const {
    reference r;
    for (std::int64_t i = 0; i < s.m; ++i) {
      for (std::int64_t j = 0; j < s.n; ++j) r.push_back(linear(i, j));
    }
    return r;
  }

  [[nodiscard]] double finished(double value, std::int64_t i, std::int64_t j) const {
    const auto at = static_cast<std::size_t>(i * ldc + j);
    if (has_gelu()) value = value / 2 * (1 + std::tanh(0.7978845608028654 * (value + 0.044715 * value * value * value)));
    if (adds_to_c()) value += static_cast<double>(static_cast<float>(before[at]));
    if (end == ending::residual) value += static_cast<double>(residual[static_cast<std::size_t>(i * ld_residual + j)]);
    return value;
  }

  /// The largest error as a multiple of what is allowed; also fails on a write outside the rows of C.
  [[nodiscard]] double worst(const reference& sums) const {
    const double unit = std::is_same_v<Out, bf16> ? 1.0 / 200 : 0.0;  // half a step of bf16, and a little
    double result = 0;
    for (std::int64_t i = 0; i < s.m; ++i) {
      for (std::int64_t j = 0; j < ldc; ++j) {
        const auto at = static_cast<std::size_t>(i * ldc + j);
        if (j >= s.n) {
          if (!(c[at] == before[at])) return 1e30;
          continue;
        }
        auto [value, size] = sums[static_cast<std::size_t>(i * s.n + j)];
        if (has_bias()) value += static_cast<double>(bias[static_cast<std::size_t>(j)]);
        result = std::max(result, excess(c[at], finished(value, i, j), size, unit));
        if (end == ending::bias_gelu_saved) result = std::max(result, excess(saved[at], value, size, unit));
      }
    }
    return result;
  }

  static double excess(Out got, double expected, double size, double unit) {
    const double error = std::abs(static_cast<double>(static_cast<float>(got)) - expected);
    const double allowed = 2e-6 * size + unit * (std::abs(expected) + 1e-3);
    return std::isfinite(error) ? error / allowed : 1e30;
  }
};

template <class In, class Out, class G>
void check(G& gemm, thread_pool& pool, scratch& memory, shape s, std::initializer_list<ending> endings) {
  const reference sums = product<In, Out>{s, ending::plain}.linear();
  for (const ending end : endings) {
    product<In, Out> p{s, end};
    gemm.multiply(pool, memory, p.args());
    INFO("m " << s.m << " n " << s.n << " k " << s.k << (s.transpose_a ? " TA" : "") << (s.transpose_b ? " TB" : "")
              << " extra " << s.extra << ", " << to_string(end) << ": error as a multiple of the limit");
    CHECK(p.worst(sums) <= 1.0);
  }
}

/// Shapes at and around the edges of tiles, strips and blocks of every kernel; all transposes; all endings.
template <class In, class Out, class G>
void check_all(G& gemm, thread_pool& pool) {
  scratch memory;
  constexpr std::int64_t sizes[][3] = {{1, 1, 1},     {3, 17, 5},    {17, 3, 33},   {14, 32, 16}, {15, 33, 17},
                                       {33, 67, 131}, {67, 131, 33}, {131, 33, 67}, {29, 65, 0}};
  for (const auto& size : sizes) {
    for (int bits = 0; bits < 4; ++bits) {
      const shape s{size[0], size[1], size[2], (bits & 1) != 0, (bits & 2) != 0, bits == 0 ? 0 : 3 * bits};
      check<In, Out>(gemm, pool, memory, s, all_endings);
    }
  }
  // Several blocks of k, with every ending; then several blocks of rows and of columns.
  check<In, Out>(gemm, pool, memory, {19, 45, 1101, false, true, 1}, all_endings);
  check<In, Out>(gemm, pool, memory, {35, 14, 1602, true, false, 1}, {ending::residual_in_place, ending::bias_gelu_saved});
  check<In, Out>(gemm, pool, memory, {700, 37, 40, true, false}, {ending::plain});
  check<In, Out>(gemm, pool, memory, {5, 3300, 21, false, false}, {ending::accumulate});
}

}  // namespace causeway::tests::gemm

#endif  // CAUSEWAY_TESTS_SUPPORT_GEMM_CASES_HPP
