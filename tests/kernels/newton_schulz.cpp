// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/newton_schulz.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace {

using namespace causeway;

/// Products in double, one after another; the n-th call of any kind fails.
struct plain_steps {
  int calls_left = 1000;

  result<void> multiply(const kernels::gemm_args<double, double>& g) {
    if (calls_left-- == 0) return fail(errc::device_lost, "test", "lost");
    for (std::int64_t i = 0; i < g.m; ++i) {
      for (std::int64_t j = 0; j < g.n; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < g.k; ++k) {
          sum += g.a[g.transpose_a ? k * g.lda + i : i * g.lda + k] * g.b[g.transpose_b ? j * g.ldb + k : k * g.ldb + j];
        }
        g.c[i * g.ldc + j] = sum;
      }
    }
    return {};
  }
  result<void> combine(double* a, const double* aa, std::int64_t side) {
    constexpr kernels::newton_schulz_coefficients c{};
    for (std::int64_t i = 0; i < side * side; ++i) {
      a[i] = static_cast<double>(c.cubic) * a[i] + static_cast<double>(c.quintic) * aa[i];
      if (i / side == i % side) a[i] += static_cast<double>(c.linear);
    }
    return {};
  }
};

}  // namespace

TEST_CASE("newton_schulz: each singular value goes through the polynomial, vectors stay", "[kernels][fast]") {
  // A diagonal matrix, wide or tall, keeps its shape, and its entries are its singular values.
  for (const auto& [rows, columns] : std::vector<std::pair<std::int64_t, std::int64_t>>{{4, 4}, {3, 7}, {7, 3}}) {
    const std::int64_t side = std::min(rows, columns);
    std::vector<double> x(static_cast<std::size_t>(rows * columns)), next(x.size());
    std::vector<double> a(static_cast<std::size_t>(side * side)), aa(a.size()), expected;
    for (std::int64_t i = 0; i < side; ++i) {
      double s = 0.05 + 0.2 * static_cast<double>(i);
      x[static_cast<std::size_t>(i * columns + i)] = s;
      for (int step = 0; step < 5; ++step) {
        s = static_cast<double>(3.4445F) * s - static_cast<double>(4.7750F) * std::pow(s, 3) +
            static_cast<double>(2.0315F) * std::pow(s, 5);
      }
      expected.push_back(s);
    }
    plain_steps steps;
    const auto done = kernels::newton_schulz(steps, x.data(), next.data(), a.data(), aa.data(), rows, columns, 5);
    REQUIRE(done);
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      const bool diagonal = i / columns == i % columns;
      CHECK(done.value()[i] == Approx(diagonal ? expected[static_cast<std::size_t>(i / columns)] : 0.0).margin(1e-12));
    }
    for (const double s : expected) CHECK((s > 0.6 && s < 1.3));
  }
}

TEST_CASE("newton_schulz: a product that fails ends it", "[kernels][fast]") {
  std::vector<double> x(6, 0.1), next(6), a(4), aa(4);
  plain_steps steps{.calls_left = 4};
  const auto done = kernels::newton_schulz(steps, x.data(), next.data(), a.data(), aa.data(), 2, 3, 5);
  REQUIRE_FALSE(done);
  CHECK(done.error().code == errc::device_lost);
}

TEST_CASE("newton_schulz: no iteration leaves the matrix alone", "[kernels][fast]") {
  std::vector<double> x(6, 0.1), next(6), a(4), aa(4);
  plain_steps steps{.calls_left = 0};
  CHECK(kernels::newton_schulz(steps, x.data(), next.data(), a.data(), aa.data(), 2, 3, 0).value() == x.data());
}
