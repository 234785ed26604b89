// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/product_key_gate.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "support/catch.hpp"

using namespace causeway;
using stage::best_experts;
using stage::expert_choice;
using stage::expert_directory;
using stage::expert_grid;
using stage::product_key_gate;

namespace {

std::vector<float> normal(std::size_t count, std::uint64_t seed) {
  rng draw{seed};
  std::vector<float> values(count);
  for (float& v : values) v = draw.normal();
  return values;
}

expert_directory grid_with(const expert_grid& grid, double alive, std::uint64_t seed) {
  expert_directory directory{grid};
  rng draw{seed, 1};
  for (stage::expert_id e = 0; e < grid.places(); ++e) {
    if (static_cast<double>(draw.uniform()) < alive) directory.announce(e);
  }
  return directory;
}

/// Scores all alive experts, in the same order of additions.
std::vector<stage::expert_id> brute_force(const expert_directory& directory, std::span<const float> scores,
                                          std::size_t chosen) {
  const expert_grid& grid = directory.grid();
  std::vector<expert_choice> all;
  for (stage::expert_id e = 0; e < grid.places(); ++e) {
    if (!directory.contains(e)) continue;
    float sum = 0;
    std::size_t at = 0;
    for (std::size_t axis = 0; axis < grid.axes(); ++axis) {
      sum += scores[at + grid.coordinate(e, axis)];
      at += grid.sides()[axis];
    }
    all.push_back({e, sum});
  }
  std::sort(all.begin(), all.end(), [](const expert_choice& a, const expert_choice& b) {
    return a.score != b.score ? a.score > b.score : a.expert < b.expert;
  });
  all.resize(std::min(all.size(), chosen));
  std::vector<stage::expert_id> ids;
  for (const expert_choice& c : all) ids.push_back(c.expert);
  return ids;
}

std::vector<stage::expert_id> ids_of(const std::vector<expert_choice>& choices) {
  std::vector<stage::expert_id> ids;
  for (const expert_choice& c : choices) ids.push_back(c.expert);
  return ids;
}

/// Counts questions.
struct asked {
  const expert_directory& inner;
  mutable std::size_t questions = 0;
  mutable std::size_t answers = 0;
  [[nodiscard]] const expert_grid& grid() const { return inner.grid(); }
  void extensions(stage::expert_id prefix, std::size_t axis, std::vector<std::uint32_t>& out) const {
    inner.extensions(prefix, axis, out);
    ++questions;
    answers += out.size();
  }
};

}  // namespace

TEST_CASE("product_key_gate: with all experts alive the beam finds the best, scoring few", "[stage][fast]") {
  for (const auto& sides : {std::vector<std::uint32_t>{7, 11, 5}, {16, 16}, {9}, {3, 4, 2, 5}}) {
    const expert_grid grid{sides};
    const auto directory = grid_with(grid, 2.0, 0);
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      const auto scores = normal(grid.heads(), seed);
      const asked counted{directory};
      CHECK(ids_of(best_experts(counted, scores, 4, 4)) == brute_force(directory, scores, 4));
      CHECK(counted.questions <= 1 + 4 * (grid.axes() - 1));
      CHECK(counted.answers <= 4 * grid.heads());
    }
  }
}

TEST_CASE("product_key_gate: ties go to the lower number", "[stage][fast]") {
  const expert_grid grid{{4, 4}};
  const auto directory = grid_with(grid, 2.0, 0);
  const std::vector<float> level(8, 0.5F);
  CHECK(ids_of(best_experts(directory, level, 5, 5)) == std::vector<stage::expert_id>{0, 1, 2, 3, 4});
}

TEST_CASE("product_key_gate: among experts of which some are missing only alive ones are found, with a wide beam the best",
          "[stage][fast]") {
  const expert_grid grid{{8, 8, 8}};
  std::size_t found = 0, wanted = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const auto directory = grid_with(grid, 0.5, seed);
    const auto scores = normal(grid.heads(), seed + 1000);
    const auto best = brute_force(directory, scores, 4);
    CHECK(ids_of(best_experts(directory, scores, 4, 64)) == best);  // there are 64 prefixes
    const auto narrow = best_experts(directory, scores, 4, 4);
    REQUIRE(narrow.size() == 4);
    for (const expert_choice& c : narrow) CHECK(directory.contains(c.expert));
    CHECK(std::is_sorted(narrow.begin(), narrow.end(), [](const auto& a, const auto& b) { return a.score > b.score; }));
    for (const auto e : ids_of(narrow)) found += std::count(best.begin(), best.end(), e) > 0 ? 1U : 0U;
    wanted += best.size();
  }
  CHECK(found > wanted * 3 / 4);  // half of the experts missing, the beam as narrow as it goes
  CHECK(found < wanted);          // it is no more than a beam search
}

TEST_CASE("product_key_gate: fewer alive than wanted are all found, none alive is no error", "[stage][fast]") {
  const expert_grid grid{{5, 5}};
  expert_directory directory{grid};
  const auto scores = normal(10, 1);
  CHECK(best_experts(directory, scores, 4, 4).empty());
  directory.announce(7);
  directory.announce(24);
  CHECK(best_experts(directory, scores, 4, 4).size() == 2);
}

TEST_CASE("product_key_gate: who does not answer is left out, and the weights of the others make one", "[stage][fast]") {
  const stage::expert_choices choices{{0, 3, 5}, {{1, 2.0F}, {2, 1.0F}, {3, -1.0F}, {4, 0.5F}, {5, 0.25F}}};
  std::vector<float> w(5);
  stage::weigh_experts(choices, std::vector<std::uint8_t>{0, 1, 1, 0, 0}, w);
  const double e = std::exp(2.0);
  CHECK(w[0] == 0);
  CHECK(w[1] == Approx(e / (e + 1)));
  CHECK(w[2] == Approx(1 / (e + 1)));
  CHECK(w[3] == 0);
  CHECK(w[4] == 0);
  std::vector<float> gradient{5, 1, 2, 3, 4};
  stage::weigh_experts_backward(choices, w, gradient);
  CHECK(gradient[0] == 0);
  CHECK(gradient[1] == Approx(-gradient[2]));
  CHECK(gradient[3] == 0);
}

TEST_CASE("product_key_gate: gradients are those of finite differences, with an expert missing", "[stage][fast]") {
  constexpr std::int64_t width = 6;
  constexpr std::size_t rows = 5;
  const expert_grid grid{{4, 3}};
  const auto directory = grid_with(grid, 2.0, 0);
  thread_pool pool{1};
  auto gate = product_key_gate::create(width, grid, {.chosen = 3, .seed = 2}).value();
  auto x = normal(rows * width, 5);
  const auto value_of = normal(grid.places(), 6);  // what each expert says of any row
  const auto target = normal(rows, 7);
  // Choices are held still, as a gradient must: only their scores follow the parameters.
  const auto chosen = gate.choose(pool, x, directory).value();
  std::vector<std::uint8_t> answered(chosen.all.size(), 1);
  answered[1] = 0;
  const auto weights_now = [&](stage::expert_choices& now) {
    std::vector<float> w(now.all.size());
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = now.first[r]; c < now.first[r + 1]; ++c) {
        float score = 0;
        std::size_t at = 0;
        for (std::size_t axis = 0; axis < 2; ++axis) {
          const std::size_t head = at + grid.coordinate(now.all[c].expert, axis);
          for (std::size_t j = 0; j < width; ++j) score += gate.weights()[head * width + j] * x[r * width + j];
          at += grid.sides()[axis];
        }
        now.all[c].score = score;
      }
    }
    stage::weigh_experts(now, answered, w);
    return w;
  };
  const auto loss = [&] {
    auto now = chosen;
    const auto w = weights_now(now);
    double sum = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = now.first[r]; c < now.first[r + 1]; ++c) {
        sum += static_cast<double>(w[c] * value_of[now.all[c].expert] * target[r]);
      }
    }
    return sum;
  };
  auto now = chosen;
  const auto w = weights_now(now);
  for (std::size_t c = 0; c < now.all.size(); ++c) CHECK(now.all[c].score == Approx(chosen.all[c].score).margin(1e-5));
  std::vector<float> d(w.size()), dx(x.size(), 0.0F);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = now.first[r]; c < now.first[r + 1]; ++c) d[c] = value_of[now.all[c].expert] * target[r];
  }
  stage::weigh_experts_backward(chosen, w, d);
  gate.backward(pool, x, chosen, d, dx);

  const auto check = [&](std::span<float> at, std::span<const float> gradient) {
    double largest = 0;
    for (std::size_t i = 0; i < at.size(); ++i) {
      constexpr float h = 1e-2F;
      const float before = at[i];
      at[i] = before + h;
      const double up = loss();
      at[i] = before - h;
      const double down = loss();
      at[i] = before;
      CHECK(static_cast<double>(gradient[i]) == Approx((up - down) / (2 * static_cast<double>(h))).margin(2e-3));
      largest = std::max(largest, std::abs(static_cast<double>(gradient[i])));
    }
    CHECK(largest > 0.1);
  };
  check(gate.weights(), gate.gradients());
  check(x, dx);
}

TEST_CASE("product_key_gate: rows choose by their own scores, on any number of threads alike", "[stage][fast]") {
  const expert_grid grid{{16, 16}};
  const auto directory = grid_with(grid, 0.9, 3);
  auto gate = product_key_gate::create(32, grid, {.chosen = 4, .beam = 8}).value();
  const auto x = normal(20 * 32, 4);
  thread_pool one{1}, three{3};
  const auto a = gate.choose(one, x, directory).value(), b = gate.choose(three, x, directory).value();
  REQUIRE(a.rows() == 20);
  CHECK(ids_of(a.all) == ids_of(b.all));
  CHECK(ids_of(a.all).front() != ids_of(a.all)[4]);
}

TEST_CASE("product_key_gate: scores that are not finite, and options that cannot work, are refused", "[stage][fast]") {
  const expert_grid grid{{4, 4}};
  const auto directory = grid_with(grid, 2.0, 0);
  thread_pool pool{1};
  auto gate = product_key_gate::create(8, grid).value();
  auto x = normal(16, 4);
  x[9] = std::numeric_limits<float>::quiet_NaN();
  const auto chosen = gate.choose(pool, x, directory);
  REQUIRE_FALSE(chosen);
  CHECK(chosen.error().code == errc::non_finite);
  CHECK_FALSE(product_key_gate::create(0, grid));
  CHECK_FALSE(product_key_gate::create(8, grid, {.chosen = 0}));
  CHECK_FALSE(product_key_gate::create(8, grid, {.chosen = 4, .beam = 3}));
}
