// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/outer_update.hpp>

#include <cmath>

#include "support/catch.hpp"
#include "support/kernel_cases.hpp"

using namespace causeway;
using namespace causeway::kernels;

namespace {

struct state {
  std::vector<float> p, g, m, b;

  explicit state(std::size_t size)
      : p{test::uniform(size, 1)}, g{test::uniform(size, 2)}, m{test::uniform(size, 3)}, b{test::uniform(size, 4)} {
    for (std::size_t i = 0; i < size; i += 7) g[i] = i % 2 == 0 ? 0.0F : -0.0F;
  }
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(p.size()); }
  friend bool operator==(const state&, const state&) = default;
};

/// Applies `update(state, level)` at every level: all must agree bit for bit; gives the result.
template <class Update>
state same_everywhere(std::size_t size, Update&& update) {
  state first{size};
  update(first, simd_level::portable);
  for (const auto level : test::levels()) {
    state s{size};
    update(s, level);
    INFO(to_string(level) << ", " << size << " elements");
    CHECK(s == first);
  }
  return first;
}

constexpr std::size_t sizes[] = {1, 31, 1000};

}  // namespace

TEST_CASE("delayed nesterov update: is its equations, the same bits at every level", "[kernels][fast]") {
  const delayed_nesterov_coefficients c{0.7F, 0.25F, 0.9F, 0.3F, 0.5F};
  for (const bool refresh : {false, true}) {
    for (const std::size_t size : sizes) {
      const state before{size};
      const state after = same_everywhere(size, [&](state& s, simd_level level) {
        delayed_nesterov_update(s.p.data(), s.g.data(), s.m.data(), s.b.data(), s.count(), refresh, c, level);
      });
      for (std::size_t i = 0; i < size; ++i) {
        const double push = 0.5 * double(before.g[i]);
        const double buffer = double(before.b[i]) + push;
        const double m = refresh ? 0.9 * double(before.m[i]) + 0.25 * buffer : double(before.m[i]);
        CHECK(double(after.m[i]) == Approx(m).margin(1e-6));
        CHECK(double(after.b[i]) == Approx(refresh ? 0.0 : buffer).margin(1e-6));
        CHECK(double(after.p[i]) == Approx(double(before.p[i]) - 0.7 * (0.25 * push + 0.3 * m)).margin(1e-6));
      }
    }
  }
}

TEST_CASE("sign updates: are their equations, the same bits at every level", "[kernels][fast]") {
  const sign_coefficients c{0.125F, 0.75F, 0.5F, 0.5F};
  const auto sign = [](double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0; };
  for (const std::size_t size : sizes) {
    const state before{size};
    const state plain = same_everywhere(
        size, [&](state& s, simd_level level) { sign_update(s.p.data(), s.g.data(), s.count(), c, level); });
    const state damped = same_everywhere(size, [&](state& s, simd_level level) {
      sign_momentum_update(s.p.data(), s.g.data(), s.m.data(), s.count(), c, level);
    });
    for (std::size_t i = 0; i < size; ++i) {
      const double kept = double(before.p[i]) * (1 - 0.125 * 0.5);
      CHECK(double(plain.p[i]) == Approx(kept - 0.125 * sign(double(before.g[i]))).margin(1e-6));
      const double u = 0.75 * double(before.m[i]) + 0.25 * 0.5 * double(before.g[i]);
      CHECK(double(damped.m[i]) == Approx(u).margin(1e-6));
      CHECK(double(damped.p[i]) == Approx(kept - 0.125 * sign(u)).margin(1e-6));
    }
  }
}

TEST_CASE("sign update: a value that is not a number does not move the parameter", "[kernels][fast]") {
  float p[2] = {1.0F, 2.0F};
  const float g[2] = {NAN, 3.0F};
  sign_update(p, g, 2, {.learning_rate = 0.5F});
  CHECK(p[0] == 1.0F);
  CHECK(p[1] == 1.5F);
}
