// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/basis_rotation.hpp>

#include <causeway/core/rng.hpp>
#include <causeway/optim/adamw.hpp>

#include <cmath>
#include <deque>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/optimizer_cases.hpp"

using namespace causeway;
using namespace causeway::optim;

// tests/presets/traces_optimizers.cpp compares whole steps with a reference.

namespace {

constexpr std::size_t side = 8;

/// Half of the sum of h_ij·(UᵀWV)_ij²: directions of curvature that are no coordinates. U and V are rotations.
class turned_valley {
 public:
  turned_valley() : left_{rotation(1)}, right_{rotation(2)} {}

  [[nodiscard]] double loss(std::span<const float> w) const {
    double sum = 0;
    const auto x = turned(w, false);
    for (std::size_t i = 0; i < x.size(); ++i) sum += 0.5 * curvature(i) * x[i] * x[i];
    return sum;
  }
  void gradient(std::span<const float> w, std::span<float> g) const {
    const auto x = turned(w, false);
    std::vector<float> h(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) h[i] = static_cast<float>(curvature(i) * x[i]);
    const auto back = turned(h, true);
    for (std::size_t i = 0; i < back.size(); ++i) g[i] = static_cast<float>(back[i]);
  }

 private:
  static double curvature(std::size_t i) { return std::pow(10.0, -static_cast<double>(i / side + i % side) / 4); }

  /// [side, side], rows orthonormal.
  static std::vector<double> rotation(std::uint64_t seed) {
    rng random{seed};
    std::vector<float> rows(side * side);
    for (float& x : rows) x = 2.0F * random.uniform() - 1.0F;
    REQUIRE(kernels::low_rank_orthonormalise(rows, side));
    return {rows.begin(), rows.end()};
  }
  [[nodiscard]] std::vector<double> turned(std::span<const float> w, bool back) const {
    std::vector<double> half(side * side), all(side * side);
    const auto l = [&](std::size_t i, std::size_t k) { return back ? left_[k * side + i] : left_[i * side + k]; };
    const auto r = [&](std::size_t k, std::size_t j) { return back ? right_[k * side + j] : right_[j * side + k]; };
    for (std::size_t i = 0; i < side * side; ++i) {
      for (std::size_t k = 0; k < side; ++k) half[i] += l(i / side, k) * double{w[k * side + i % side]};
    }
    for (std::size_t i = 0; i < side * side; ++i) {
      for (std::size_t k = 0; k < side; ++k) all[i] += half[i / side * side + k] * r(k, i % side);
    }
    return all;
  }

  std::vector<double> left_, right_;
};

/// The loss after 150 steps whose gradients are of parameters `delay` steps ago, over the first.
template <class O>
double left_of(O optimizer, std::size_t delay) {
  const turned_valley valley;
  thread_pool pool;
  parameter_store store;
  store.add("w", parameter_kind::matrix, side, side);
  store.allocate();
  test::fill(store, store.values(), 7);
  const double before = valley.loss(store.values());
  optimizer.reset(store.length());
  std::deque<std::vector<float>> seen;
  for (int step = 0; step < 150; ++step) {
    seen.emplace_back(store.values().begin(), store.values().end());
    if (seen.size() > delay + 1) seen.pop_front();
    valley.gradient(seen.front(), store.gradients());
    const float rate = 0.03F * static_cast<float>(150 - step) / 150;
    optimizer.step(pool, store.view(), {.learning_rate = rate});
  }
  return valley.loss(store.values()) / before;
}

}  // namespace

TEST_CASE("basis rotation: where curvature is turned it gets further than AdamW, with late gradients, too",
          "[optim][fast]") {
  const adamw_options plain{.beta2 = 0.999F, .weight_decay = 0};
  const bool first_order = GENERATE(false, true);
  const basis_rotation_options turned{.weight_decay = 0, .first_order = first_order};
  for (const std::size_t delay : {std::size_t{0}, std::size_t{7}}) {
    const double with = left_of(basis_rotation<>{turned}, delay), without = left_of(adamw{plain}, delay);
    CAPTURE(delay, with, without, first_order);
    CHECK(with < (first_order ? 0.8 : 0.5) * without);
  }
}

TEST_CASE("basis rotation: matrices of any shape move by about the rate in each step", "[optim][fast]") {
  thread_pool pool{2};
  for (const auto& [shorter, first_order] : {std::pair{false, false}, {true, false}, {false, true}}) {
    parameter_store store;
    store.add("wide", parameter_kind::matrix, 6, 10);
    store.add("tall", parameter_kind::matrix, 9, 4);
    store.add("square", parameter_kind::matrix, 5, 5);
    store.add("gain", parameter_kind::vector, 1, 7);
    store.allocate();
    test::fill(store, store.values(), 1);
    const std::vector<float> before(store.values().begin(), store.values().end());
    basis_rotation<> optimizer{{.weight_decay = 0, .period = 3, .shorter_side = shorter, .first_order = first_order}};
    optimizer.reset(store.length());
    test::golden_steps(optimizer, pool, store, 0, 10);  // rates of 0.01 to 0.1: 0.55 together
    for (const auto& s : store.segments()) {
      double squares = 0;
      for (std::int64_t i = s.offset; i < s.offset + s.size(); ++i) {
        const auto at = static_cast<std::size_t>(i);
        squares += std::pow(double{store.values()[at]} - double{before[at]}, 2);
      }
      const double moved = std::sqrt(squares / static_cast<double>(s.size()));
      INFO(s.name << " moved by " << moved << (shorter ? ", shorter side" : "") << (first_order ? ", first order" : ""));
      CHECK(moved > 0.05);
      CHECK(moved < 1);
    }
  }
}

TEST_CASE("basis rotation: a checkpoint goes on as if there had been none", "[optim][fast]") {
  CHECK(test::survives_a_checkpoint<basis_rotation<>>(basis_rotation_options{.period = 3}));
  CHECK(test::survives_a_checkpoint<basis_rotation<>>(basis_rotation_options{.period = 3, .shorter_side = true}));
  CHECK(test::survives_a_checkpoint<basis_rotation<>>(basis_rotation_options{.period = 3, .first_order = true}));
}

TEST_CASE("basis rotation: matrices and all else are clipped by norms of their own", "[optim][fast]") {
  thread_pool pool;
  const auto after = [&](float of_matrix, float of_vector, float clip) {
    parameter_store store;
    store.add("w", parameter_kind::matrix, 1, 1);
    store.add("b", parameter_kind::vector, 1, 1);
    store.allocate();
    basis_rotation<> optimizer{{.epsilon = 1.0F, .weight_decay = 0, .clip_norm = clip}};
    optimizer.reset(store.length());
    *store.gradient(0) = of_matrix, *store.gradient(1) = of_vector;
    optimizer.step(pool, store.view(), {.learning_rate = 1.0F, .gradient_scale = 0.5F});
    return std::pair{*store.value(0), *store.value(1)};
  };
  CHECK(after(60, -40, 2) == after(4, -4, 0));
  CHECK(after(60, -3, 2) == after(4, -3, 0));
  CHECK(after(3, -3, 2) == after(3, -3, 0));
  CHECK(after(4, -4, 0) != after(4, -3, 0));
}

TEST_CASE("basis rotation: gradients of zero move nothing", "[optim][fast]") {
  thread_pool pool;
  auto store = test::golden_parameters();
  test::fill(store, store.values(), 1);
  const std::vector<float> before(store.values().begin(), store.values().end());
  for (const bool first_order : {false, true}) {
    basis_rotation<> optimizer{{.weight_decay = 0, .period = 1, .first_order = first_order}};
    optimizer.reset(store.length());
    for (int i = 0; i < 3; ++i) optimizer.step(pool, store.view(), {.learning_rate = 0.1F});
    CHECK(before == std::vector<float>(store.values().begin(), store.values().end()));
  }
}
