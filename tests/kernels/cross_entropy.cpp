// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/cross_entropy.hpp>

#include <causeway/kernels/packed_gemm.hpp>

#include "support/catch.hpp"

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace {

using namespace causeway;
using kernels::simd_level;

std::size_t count(std::int64_t n) { return static_cast<std::size_t>(n); }

template <class Act>
struct problem {
  std::int64_t rows, C, V;
  std::vector<Act> x, w, dx;
  std::vector<std::int32_t> targets;
  std::vector<float> dw;
  static constexpr float grad_scale = 0.25F;
  static constexpr float dw_before = 2.0F;  // gradients of w are added to what is there

  problem(std::int64_t rows_, std::int64_t C_, std::int64_t V_, float magnitude = 1.0F)
      : rows{rows_},
        C{C_},
        V{V_},
        x(count(rows * C)),
        w(count(V * C)),
        dx(x.size(), Act(99.0F)),
        targets(count(rows)),
        dw(w.size()) {
    std::mt19937 random{7};
    std::normal_distribution<float> normal;
    for (auto& v : x) v = Act(magnitude * normal(random));
    for (auto& v : w) v = Act(normal(random) / std::sqrt(static_cast<float>(C)));
    for (auto& t : targets) t = static_cast<std::int32_t>(random() % static_cast<unsigned>(V));
  }
  double run(unsigned threads, bool training = true, simd_level level = kernels::detect_simd_level()) {
    thread_pool pool{threads};
    scratch memory;
    kernels::packed_gemm gemm;
    dw.assign(w.size(), dw_before);
    return kernels::cross_entropy(pool, memory, gemm, x.data(), w.data(), targets.data(), rows, C, V, grad_scale,
                                  training ? dx.data() : nullptr, training ? dw.data() : nullptr, level);
  }
};

struct reference {
  double loss = 0.0;
  std::vector<double> dx, dw;
};

template <class Act>
reference reference_of(const problem<Act>& p) {
  reference r{0.0, std::vector<double>(p.x.size()), std::vector<double>(p.w.size(), static_cast<double>(p.dw_before))};
  std::vector<double> e(count(p.V));
  const auto value = [](const Act& v) { return static_cast<double>(static_cast<float>(v)); };
  for (std::int64_t i = 0; i < p.rows; ++i) {
    const std::int32_t target = p.targets[count(i)];
    if (target < 0) continue;
    double top = -1e300;
    for (std::int64_t j = 0; j < p.V; ++j) {
      double dot = 0.0;
      for (std::int64_t k = 0; k < p.C; ++k) dot += value(p.x[count(i * p.C + k)]) * value(p.w[count(j * p.C + k)]);
      e[count(j)] = dot;
      top = std::max(top, dot);
    }
    double sum = 0.0;
    const double chosen = e[count(target)];
    for (auto& v : e) sum += v = std::exp(v - top);
    r.loss += std::log(sum) + top - chosen;
    for (std::int64_t j = 0; j < p.V; ++j) {
      const double g = static_cast<double>(p.grad_scale) * (e[count(j)] / sum - (j == target ? 1.0 : 0.0));
      for (std::int64_t k = 0; k < p.C; ++k) {
        r.dx[count(i * p.C + k)] += g * value(p.w[count(j * p.C + k)]);
        r.dw[count(j * p.C + k)] += g * value(p.x[count(i * p.C + k)]);
      }
    }
  }
  return r;
}

template <class T>
double error_of(const std::vector<T>& x, const std::vector<double>& y, double offset = 0.0) {
  double difference = 0.0;
  double norm = 1e-30;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = static_cast<double>(static_cast<float>(x[i])) - y[i];
    difference += d * d;
    norm += (y[i] - offset) * (y[i] - offset);
  }
  return std::sqrt(difference / norm);
}

template <class Act>
void check(problem<Act>& p, unsigned threads, double tolerance) {
  const reference r = reference_of(p);
  for (const auto level : {simd_level::portable, simd_level::avx2, simd_level::avx512}) {
    if (level > kernels::detect_simd_level()) continue;
    CAPTURE(to_string(level), threads, p.rows, p.C, p.V);
    CHECK(p.run(threads, true, level) == Approx(r.loss).epsilon(tolerance));
    CHECK(error_of(p.dx, r.dx) < tolerance);
    CHECK(error_of(p.dw, r.dw, static_cast<double>(p.dw_before)) < tolerance);
  }
}

}  // namespace

TEST_CASE("cross-entropy: loss and gradients equal a double reference", "[kernels][fast]") {
  for (const unsigned threads : {1U, 2U}) {
    for (const std::int64_t V : {2, 31, 300, 1040}) {
      problem<float> p{37, 24, V};
      check(p, threads, 5e-6);
      problem<bf16> half{37, 24, V};
      check(half, threads, 6e-3);
    }
  }
}

TEST_CASE("cross-entropy: several chunks give what one would", "[kernels][fast]") {
  problem<float> p{140, 2, 270000};  // a chunk holds 64 rows
  REQUIRE(kernels::detail::rows_per_chunk(p.rows, p.V) < p.rows / 2);
  for (std::int64_t i = 0; i < p.rows; i += 3) p.targets[count(i)] = -1;
  const reference r = reference_of(p);
  CHECK(p.run(2) == Approx(r.loss).epsilon(1e-6));
  CHECK(error_of(p.dx, r.dx) < 5e-6);
  CHECK(error_of(p.dw, r.dw, static_cast<double>(p.dw_before)) < 5e-5);
}

TEST_CASE("cross-entropy: chunks cover the rows, are nearly equal and fit the memory", "[kernels][fast]") {
  for (const std::int64_t rows : {1, 7, 64, 65, 1024, 10000}) {
    for (const std::int64_t V : {2, 256, 50304, 10000000}) {
      const std::int64_t chunk = kernels::detail::rows_per_chunk(rows, V);
      CHECK(chunk >= 1);
      CHECK(chunk <= rows);
      CHECK((chunk <= 64 || (chunk - 7) * V * 4 <= kernels::detail::logits_bytes));
    }
  }
}

TEST_CASE("cross-entropy: ignored rows contribute nothing", "[kernels][fast]") {
  problem<float> p{20, 16, 50};
  for (std::int64_t i = 0; i < p.rows; i += 2) p.targets[count(i)] = -1;
  check(p, 2, 5e-6);
  for (std::int64_t k = 0; k < p.C; ++k) CHECK(p.dx[count(k)] == 0.0F);
  p.targets.assign(p.targets.size(), -1);
  CHECK(p.run(1) == 0.0);
  for (const float g : p.dw) CHECK(g == p.dw_before);
}

TEST_CASE("cross-entropy: gradients equal finite differences of the loss", "[kernels][fast]") {
  problem<float> p{3, 4, 6};
  p.run(1);
  const auto dx = p.dx;
  for (std::size_t i = 0; i < p.x.size(); ++i) {
    const float kept = p.x[i];
    p.x[i] = kept + 0.01F;
    const double above = reference_of(p).loss;
    p.x[i] = kept - 0.01F;
    const double below = reference_of(p).loss;
    p.x[i] = kept;
    CHECK(static_cast<double>(dx[i]) == Approx(0.25 * (above - below) / 0.02).margin(1e-4));
  }
}

TEST_CASE("cross-entropy: logits of ten thousand stay finite and exact", "[kernels][fast]") {
  problem<float> p{9, 8, 40, 1e4F};
  const reference r = reference_of(p);
  CHECK(r.loss > 1e4);
  CHECK(p.run(1) == Approx(r.loss).epsilon(1e-5));
  for (const float g : p.dx) CHECK(std::isfinite(g));
}

TEMPLATE_TEST_CASE("cross-entropy: without gradients the loss is the same", "[kernels][fast]", float, bf16) {
  problem<TestType> p{33, 16, 257};
  const double loss = p.run(2);
  const auto dx = p.dx;
  CHECK(p.run(2, false) == loss);
  for (std::size_t i = 0; i < dx.size(); ++i) CHECK(static_cast<float>(p.dx[i]) == static_cast<float>(dx[i]));
}

TEST_CASE("cross-entropy: same bits on every run", "[kernels][fast]") {
  problem<float> p{100, 32, 999};
  const double loss = p.run(2);
  const auto dx = p.dx;
  const auto dw = p.dw;
  CHECK(p.run(2) == loss);
  CHECK(p.dx == dx);
  CHECK(p.dw == dw);
}
