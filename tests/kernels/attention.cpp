// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/attention.hpp>

#include "support/catch.hpp"
#include "support/simd_levels.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace {

using namespace causeway;
using kernels::attention_shape;
using kernels::simd_level;

// One call's operands in a packed [rows, q | k | v] activation, plus what comes out.
template <class Act>
struct problem {
  attention_shape shape;
  std::int64_t rows, q_columns, kv_columns, packed;
  std::vector<Act> qkv, o, d_o, d_qkv;
  std::vector<float> logsumexp;

  problem(std::int64_t batch, std::int64_t T, std::int64_t heads, std::int64_t kv_heads, std::int64_t head_size,
          float magnitude = 1.0F)
      : rows{batch * T},
        q_columns{heads * head_size},
        kv_columns{kv_heads * head_size},
        packed{q_columns + 2 * kv_columns} {
    shape = {batch, T, heads, kv_heads, head_size, packed, packed, packed, q_columns, 0.0F};
    shape.scale = 1.0F / std::sqrt(static_cast<float>(head_size));
    std::mt19937 random{static_cast<unsigned>(T * 131 + head_size)};
    std::normal_distribution<float> normal;
    qkv.resize(size(packed));
    o.resize(size(q_columns));
    d_o.resize(size(q_columns));
    d_qkv.resize(size(packed));
    logsumexp.resize(static_cast<std::size_t>(batch * heads * T));
    for (auto& x : qkv) x = Act(magnitude * normal(random));
    for (auto& x : d_o) x = Act(normal(random));
    poison();
  }

  std::size_t size(std::int64_t columns) const { return static_cast<std::size_t>(rows * columns); }
  // Outputs are overwritten, never added to: leftovers must not matter.
  void poison() {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (auto& x : o) x = Act(nan);
    for (auto& x : d_qkv) x = Act(nan);
    for (auto& x : logsumexp) x = nan;
  }
  void run(unsigned threads, simd_level level) {
    thread_pool pool{threads};
    scratch memory;
    poison();
    const Act* q = qkv.data();
    kernels::attention_forward(pool, memory, shape, q, q + q_columns, q + q_columns + kv_columns, o.data(),
                               logsumexp.data(), level);
    Act* dq = d_qkv.data();
    kernels::attention_backward(pool, memory, shape, q, q + q_columns, q + q_columns + kv_columns,
                                static_cast<const Act*>(o.data()), static_cast<const Act*>(d_o.data()), logsumexp.data(),
                                dq, dq + q_columns, dq + q_columns + kv_columns, level);
  }
};

// The same in double, the plain way: o, logsumexp, and the analytic gradients.
struct reference {
  std::vector<double> o, logsumexp, d_qkv;
};

template <class Act>
double loss_of(const problem<Act>& p, const std::vector<double>& qkv, reference* out) {
  const attention_shape& s = p.shape;
  const std::int64_t d = s.head_size;
  double loss = 0.0;
  const auto at = [&](std::int64_t row, std::int64_t column) { return static_cast<std::size_t>(row * p.packed + column); };
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const std::int64_t kh = p.q_columns + h / (s.heads / s.kv_heads) * d;
      const std::int64_t vh = kh + p.kv_columns;
      for (std::int64_t t = 0; t < s.T; ++t) {
        const std::int64_t row = b * s.T + t;
        std::vector<double> w(static_cast<std::size_t>(t + 1));
        double top = -1e300;
        for (std::int64_t j = 0; j <= t; ++j) {
          double dot = 0.0;
          for (std::int64_t i = 0; i < d; ++i) dot += qkv[at(row, h * d + i)] * qkv[at(b * s.T + j, kh + i)];
          w[static_cast<std::size_t>(j)] = dot * static_cast<double>(s.scale);
          top = std::max(top, w[static_cast<std::size_t>(j)]);
        }
        double sum = 0.0;
        for (auto& x : w) sum += x = std::exp(x - top);
        for (auto& x : w) x /= sum;
        const auto out_at = [&](std::int64_t i) { return static_cast<std::size_t>(row * p.q_columns + h * d + i); };
        std::vector<double> o(static_cast<std::size_t>(d));
        double correction = 0.0;
        for (std::int64_t i = 0; i < d; ++i) {
          for (std::int64_t j = 0; j <= t; ++j)
            o[static_cast<std::size_t>(i)] += w[static_cast<std::size_t>(j)] * qkv[at(b * s.T + j, vh + i)];
          correction += o[static_cast<std::size_t>(i)] * static_cast<double>(static_cast<float>(p.d_o[out_at(i)]));
        }
        loss += correction;
        if (out == nullptr) continue;
        out->logsumexp[static_cast<std::size_t>((b * s.heads + h) * s.T + t)] = top + std::log(sum);
        for (std::int64_t i = 0; i < d; ++i) out->o[out_at(i)] = o[static_cast<std::size_t>(i)];
        for (std::int64_t j = 0; j <= t; ++j) {
          double dp = 0.0;
          for (std::int64_t i = 0; i < d; ++i)
            dp += static_cast<double>(static_cast<float>(p.d_o[out_at(i)])) * qkv[at(b * s.T + j, vh + i)];
          const double weight = w[static_cast<std::size_t>(j)];
          const double ds = weight * (dp - correction) * static_cast<double>(s.scale);
          for (std::int64_t i = 0; i < d; ++i) {
            out->d_qkv[at(row, h * d + i)] += ds * qkv[at(b * s.T + j, kh + i)];
            out->d_qkv[at(b * s.T + j, kh + i)] += ds * qkv[at(row, h * d + i)];
            out->d_qkv[at(b * s.T + j, vh + i)] += weight * static_cast<double>(static_cast<float>(p.d_o[out_at(i)]));
          }
        }
      }
    }
  }
  return loss;
}

template <class Act>
std::vector<double> widened(const std::vector<Act>& x) {
  std::vector<double> out;
  for (const auto& v : x) out.push_back(static_cast<double>(static_cast<float>(v)));
  return out;
}

template <class Act>
reference reference_of(const problem<Act>& p) {
  reference r;
  r.o.resize(p.o.size());
  r.logsumexp.resize(p.logsumexp.size());
  r.d_qkv.resize(p.qkv.size());
  loss_of(p, widened(p.qkv), &r);
  return r;
}

// |x - y| / |y| over all values; infinite when anything is not finite.
template <class Act>
double relative_error(const std::vector<Act>& x, const std::vector<double>& y) {
  double difference = 0.0;
  double norm = 1e-30;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = static_cast<double>(static_cast<float>(x[i]));
    if (!std::isfinite(v)) return std::numeric_limits<double>::infinity();
    difference += (v - y[i]) * (v - y[i]);
    norm += y[i] * y[i];
  }
  return std::sqrt(difference / norm);
}

template <class Act>
void check_against_reference(problem<Act> p, unsigned threads, double tolerance) {
  const reference r = reference_of(p);
  for (const auto level : support::simd_levels()) {
    CAPTURE(to_string(level), threads, p.shape.T, p.shape.head_size, p.shape.heads, p.shape.kv_heads);
    p.run(threads, level);
    CHECK(relative_error(p.o, r.o) < tolerance);
    CHECK(relative_error(p.logsumexp, r.logsumexp) < tolerance);
    CHECK(relative_error(p.d_qkv, r.d_qkv) < tolerance);
  }
}

}  // namespace

TEST_CASE("attention: output and gradients equal a double reference, any T and head size", "[kernels][fast]") {
  for (const std::int64_t T : {1, 5, 33, 130}) {
    for (const std::int64_t head_size : {8, 16, 40, 64, 128}) {
      check_against_reference(problem<float>{1, T, 2, 2, head_size}, 1, 3e-6);
      check_against_reference(problem<bf16>{1, T, 2, 2, head_size}, 1, 1e-2);
    }
  }
}

TEST_CASE("attention: an odd head size works", "[kernels][fast]") {
  check_against_reference(problem<float>{2, 19, 1, 1, 7}, 1, 3e-6);
  check_against_reference(problem<bf16>{2, 19, 1, 1, 7}, 1, 1e-2);
}

TEST_CASE("attention: grouped queries share their keys and values", "[kernels][fast]") {
  for (const unsigned threads : {1U, 2U, 3U}) {
    check_against_reference(problem<float>{2, 70, 6, 2, 16}, threads, 3e-6);
    check_against_reference(problem<bf16>{2, 70, 6, 2, 16}, threads, 1e-2);
    check_against_reference(problem<float>{1, 200, 4, 1, 32}, threads, 3e-6);
  }
}

TEST_CASE("attention: several blocks of queries and keys", "[kernels][fast]") {
  check_against_reference(problem<float>{1, 300, 1, 1, 64}, 2, 3e-6);
  check_against_reference(problem<bf16>{1, 300, 1, 1, 64}, 2, 1e-2);
}

TEST_CASE("attention: gradients equal finite differences of a double reference", "[kernels][fast]") {
  problem<float> p{1, 9, 2, 1, 4};
  p.run(1, kernels::detect_simd_level());
  auto x = widened(p.qkv);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double kept = x[i];
    x[i] = kept + 1e-5;
    const double above = loss_of(p, x, nullptr);
    x[i] = kept - 1e-5;
    const double below = loss_of(p, x, nullptr);
    x[i] = kept;
    CHECK(static_cast<double>(p.d_qkv[i]) == Approx((above - below) / 2e-5).margin(2e-5));
  }
}

TEST_CASE("attention: scores of plus and minus ten thousand stay finite", "[kernels][fast]") {
  for (const auto level : support::simd_levels()) {
    problem<float> p{1, 40, 1, 1, 16, 200.0F};
    const reference r = reference_of(p);
    p.run(1, level);
    CHECK(*std::max_element(r.logsumexp.begin(), r.logsumexp.end()) > 1e4);
    CHECK(relative_error(p.o, r.o) < 2e-3);
    CHECK(std::isfinite(relative_error(p.d_qkv, r.d_qkv)));
    problem<bf16> half{1, 40, 1, 1, 16, 200.0F};
    half.run(1, level);
    CHECK(relative_error(half.o, reference_of(half).o) < 2e-2);
    CHECK(std::isfinite(relative_error(half.d_qkv, r.d_qkv)));
  }
}

TEMPLATE_TEST_CASE("attention: nothing flows from a later token", "[kernels][fast]", float, bf16) {
  for (const auto level : support::simd_levels()) {
    problem<TestType> p{1, 50, 2, 2, 24};
    // Only token 20 has a gradient: later keys and values, and all other queries, must get exactly zero.
    for (std::int64_t t = 0; t < p.rows; ++t) {
      for (std::int64_t i = 0; i < p.q_columns; ++i) {
        if (t != 20) p.d_o[static_cast<std::size_t>(t * p.q_columns + i)] = TestType(0.0F);
      }
    }
    p.run(2, level);
    const auto before = p.o;
    for (std::int64_t t = 0; t < p.rows; ++t) {
      for (std::int64_t i = 0; i < p.packed; ++i) {
        const auto g = static_cast<float>(p.d_qkv[static_cast<std::size_t>(t * p.packed + i)]);
        const bool zero = i < p.q_columns ? t != 20 : t > 20;
        if (zero) REQUIRE(g == 0.0F);
      }
    }
    // And the output up to token 20 does not change when later tokens do.
    for (std::size_t i = static_cast<std::size_t>(21 * p.packed); i < p.qkv.size(); ++i) p.qkv[i] = TestType(3.0F);
    p.run(2, level);
    for (std::size_t i = 0; i < static_cast<std::size_t>(21 * p.q_columns); ++i) {
      REQUIRE(static_cast<float>(p.o[i]) == static_cast<float>(before[i]));
    }
  }
}

TEMPLATE_TEST_CASE("attention: same bits on every run, and in the output for every number of threads", "[kernels][fast]",
                   float, bf16) {
  for (const auto level : support::simd_levels()) {
    problem<TestType> p{1, 150, 3, 3, 32};
    p.run(2, level);
    const auto o = p.o;
    const auto d_qkv = p.d_qkv;
    p.run(2, level);
    CHECK(std::memcmp(p.o.data(), o.data(), o.size() * sizeof(TestType)) == 0);
    CHECK(std::memcmp(p.d_qkv.data(), d_qkv.data(), d_qkv.size() * sizeof(TestType)) == 0);
    p.run(1, level);
    CHECK(std::memcmp(p.o.data(), o.data(), o.size() * sizeof(TestType)) == 0);
  }
}
