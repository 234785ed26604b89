// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/optimizer.hpp>

#include "support/catch.hpp"
#include "support/kernel_cases.hpp"

using namespace causeway;
using namespace causeway::kernels;

namespace {

struct state {
  std::vector<float> p, g, m, v;

  explicit state(std::size_t size)
      : p{test::uniform(size, 1)},
        g{test::uniform(size, 2)},
        m{test::uniform(size, 3)},
        v{test::uniform(size, 4, 0.0F, 1.0F)} {}

  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(p.size()); }
  friend bool operator==(const state&, const state&) = default;
};

// Applies `update(state, pool, level)` at every level and thread count: all must agree bit for bit; returns the result.
template <class Update>
state same_everywhere(std::size_t size, Update&& update) {
  state first{size};
  thread_pool one;
  update(first, one, simd_level::portable);
  for (const unsigned threads : {1U, 3U}) {
    thread_pool pool{threads};
    for (const auto level : test::levels()) {
      state s{size};
      update(s, pool, level);
      INFO(to_string(level) << ", " << size << " elements, " << threads << " threads");
      CHECK(s == first);
    }
  }
  return first;
}

constexpr std::size_t sizes[] = {1, 31, 16385, 50000};

}  // namespace

TEST_CASE("adamw update: is its equations, the same bits at every level and thread count", "[kernels][fast]") {
  const adamw_coefficients c{0.01F, 0.9F, 0.95F, 1e-8F, 0.1F, 0.271F, 0.142625F, 0.5F};
  for (const std::size_t size : sizes) {
    const state before{size};
    const state after = same_everywhere(size, [&](state& s, thread_pool& pool, simd_level level) {
      adamw_update(pool, s.p.data(), s.g.data(), s.m.data(), s.v.data(), s.count(), c, level);
    });
    std::vector<double> p, m, v;
    for (std::size_t i = 0; i < size; ++i) {
      const double g = 0.5 * static_cast<double>(before.g[i]);
      m.push_back(0.9 * static_cast<double>(before.m[i]) + 0.1 * g);
      v.push_back(0.95 * static_cast<double>(before.v[i]) + 0.05 * g * g);
      const double update = m[i] / 0.271 / (std::sqrt(v[i] / 0.142625) + 1e-8);
      p.push_back(static_cast<double>(before.p[i]) * (1.0 - 0.01 * 0.1) - 0.01 * update);
    }
    CHECK(test::worst_error(after.m, m) < 2e-7);
    CHECK(test::worst_error(after.v, v) < 2e-7);
    CHECK(test::worst_error(after.p, p) < 3e-7);
    CHECK(after.g == before.g);
  }
}

TEST_CASE("adamw update: padding of zeros stays zero", "[kernels][fast]") {
  state s{16};
  for (auto* values : {&s.p, &s.g, &s.m, &s.v}) std::fill(values->begin(), values->end(), 0.0F);
  const state zeros = s;
  adamw_update(s.p.data(), s.g.data(), s.m.data(), s.v.data(), 16, {});
  CHECK(s == zeros);
}

TEST_CASE("sgd update: with rate 1 it is p - g exactly", "[kernels][fast]") {
  for (const std::size_t size : sizes) {
    const state before{size};
    const state after = same_everywhere(size, [](state& s, thread_pool& pool, simd_level level) {
      sgd_update(pool, s.p.data(), s.g.data(), s.count(), {1.0F, 0.0F, 0.0F, 1.0F}, level);
    });
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < size; ++i) wrong += after.p[i] == before.p[i] - before.g[i] ? 0U : 1U;
    CHECK(wrong == 0);
  }
}

TEST_CASE("sgd, momentum and nesterov updates: are their equations, the same bits everywhere", "[kernels][fast]") {
  const sgd_coefficients c{0.1F, 0.9F, 0.02F, 0.5F};
  for (const std::size_t size : sizes) {
    const state before{size};
    const auto plain = same_everywhere(size, [&](state& s, thread_pool& pool, simd_level level) {
      sgd_update(pool, s.p.data(), s.g.data(), s.count(), c, level);
    });
    const auto momentum = same_everywhere(size, [&](state& s, thread_pool&, simd_level level) {
      momentum_update(s.p.data(), s.g.data(), s.m.data(), s.count(), c, level);
    });
    const auto nesterov = same_everywhere(size, [&](state& s, thread_pool& pool, simd_level level) {
      nesterov_update(pool, s.p.data(), s.g.data(), s.m.data(), s.count(), c, level);
    });
    std::vector<double> p0, p1, p2, u;
    for (std::size_t i = 0; i < size; ++i) {
      const auto p = static_cast<double>(before.p[i]);
      const double g = 0.5 * static_cast<double>(before.g[i]) + 0.02 * p;
      u.push_back(0.9 * static_cast<double>(before.m[i]) + g);
      p0.push_back(p - 0.1 * g);
      p1.push_back(p - 0.1 * u[i]);
      p2.push_back(p - 0.1 * (g + 0.9 * u[i]));
    }
    CHECK(test::worst_error(plain.p, p0) < 2e-7);
    CHECK(test::worst_error(momentum.p, p1) < 2e-7);
    CHECK(test::worst_error(momentum.m, u) < 2e-7);
    CHECK(test::worst_error(nesterov.p, p2) < 2e-7);
    CHECK(nesterov.m == momentum.m);
  }
}

TEST_CASE("muon momentum: leaves the Nesterov direction in x", "[kernels][fast]") {
  const std::size_t size = 20001;
  const state before{size};
  const state after = same_everywhere(size, [](state& s, thread_pool& pool, simd_level level) {
    muon_momentum(pool, s.v.data(), s.g.data(), s.m.data(), s.count(), 0.95F, 2.0F, level);
  });
  std::vector<double> u, x;
  for (std::size_t i = 0; i < size; ++i) {
    const double g = 2.0 * static_cast<double>(before.g[i]);
    u.push_back(0.95 * static_cast<double>(before.m[i]) + g);
    x.push_back(g + 0.95 * u[i]);
  }
  CHECK(test::worst_error(after.m, u) < 2e-7);
  CHECK(test::worst_error(after.v, x) < 2e-7);
}
