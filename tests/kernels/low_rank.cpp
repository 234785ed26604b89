// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/low_rank.hpp>

#include "compress/codec_checks.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <limits>

using namespace causeway;
using namespace causeway::kernels;

namespace {

double dot(const float* a, const float* b, std::size_t n) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

/// How far the vectors are from orthonormal.
double skew(const std::vector<float>& factor, std::size_t length) {
  double worst = 0;
  for (std::size_t k = 0; k < factor.size() / length; ++k) {
    for (std::size_t l = 0; l <= k; ++l) {
      const double product = dot(factor.data() + k * length, factor.data() + l * length, length);
      worst = std::max(worst, std::abs(product - (k == l ? 1.0 : 0.0)));
    }
  }
  return worst;
}

/// A matrix with the given singular values.
std::vector<float> with_singular_values(const std::vector<float>& sigma, std::size_t rows, std::size_t columns) {
  thread_pool pool{1};
  const low_rank_shape shape{rows, columns, sigma.size()};
  auto left = codec_checks::values(shape.left_size(), 3), right = codec_checks::values(shape.right_size(), 4);
  REQUIRE(low_rank_orthonormalise(left, rows));
  REQUIRE(low_rank_orthonormalise(right, columns));
  for (std::size_t k = 0; k < sigma.size(); ++k) {
    for (std::size_t i = 0; i < rows; ++i) left[k * rows + i] *= sigma[k];
  }
  std::vector<float> matrix(shape.matrix_size());
  low_rank_expand(pool, shape, left, right, matrix);
  return matrix;
}

/// One round of one peer; gives the Frobenius norm of what is missed.
double round(const low_rank_shape& shape, const std::vector<float>& matrix, std::vector<float>& right) {
  thread_pool pool{1};
  std::vector<float> left(shape.left_size()), back(matrix.size());
  low_rank_left(pool, shape, matrix, right, left);
  REQUIRE(low_rank_orthonormalise(left, shape.rows));
  low_rank_right(pool, shape, matrix, left, right);
  low_rank_expand(pool, shape, left, right, back);
  for (std::size_t i = 0; i < back.size(); ++i) back[i] -= matrix[i];
  return std::sqrt(dot(back.data(), back.data(), back.size()));
}

}  // namespace

TEST_CASE("low rank: products that can be done by hand", "[kernels][fast]") {
  thread_pool pool{1};
  const low_rank_shape shape{2, 3, 2};
  const std::vector<float> matrix{1, 2, 3, 4, 5, 6}, right{1, 0, 0, 1, 1, 1};
  std::vector<float> left(4), back(6), product(6);
  low_rank_left(pool, shape, matrix, right, left);
  CHECK(left == std::vector<float>{1, 4, 6, 15});
  low_rank_right(pool, shape, matrix, std::vector<float>{1, 0, 1, -1}, back);
  CHECK(back == std::vector<float>{1, 2, 3, -3, -3, -3});
  low_rank_expand(pool, shape, left, right, product);
  CHECK(product == std::vector<float>{7, 6, 6, 19, 15, 15});
}

TEST_CASE("low rank: a matrix of that rank comes back after one round, from any start", "[kernels][fast]") {
  const low_rank_shape shape{70, 131, 3};
  const auto matrix = with_singular_values({5, 2, 0.5F}, 70, 131);
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    std::vector<float> right(shape.right_size());
    low_rank_start(shape, seed, right);
    CHECK(round(shape, matrix, right) < 1e-5 * 5.4);
  }
}

TEST_CASE("low rank: warm starts approach the best approximation there is", "[kernels][fast]") {
  const low_rank_shape shape{80, 60, 2};
  const auto matrix = with_singular_values({4, 3, 2, 1, 0.5F}, 80, 60);
  const double best = std::sqrt(4 + 1 + 0.25);  // Eckart and Young: what the other singular values leave
  std::vector<float> right(shape.right_size());
  low_rank_start(shape, 1, right);
  const double first = round(shape, matrix, right);
  double last = first;
  for (int i = 0; i < 30; ++i) {
    const double next = round(shape, matrix, right);
    CHECK(next <= last * 1.00001);
    CHECK(next >= best * 0.99999);
    last = next;
  }
  CHECK(first > 1.02 * best);
  CHECK(last == Approx(best).epsilon(1e-4));
}

TEST_CASE("low rank: peers that average factors get the approximation of the mean matrix", "[kernels][fast]") {
  thread_pool pool{1};
  const low_rank_shape shape{40, 50, 2};
  const auto a = with_singular_values({3, 1}, 40, 50), b = codec_checks::values(2000, 8);
  std::vector<float> mean(2000), right(shape.right_size()), left_a(80), left_b(80), left(80), right_a(100), right_b(100);
  for (std::size_t i = 0; i < 2000; ++i) mean[i] = 0.5F * (a[i] + b[i]);
  low_rank_start(shape, 2, right);
  low_rank_left(pool, shape, a, right, left_a);
  low_rank_left(pool, shape, b, right, left_b);
  low_rank_left(pool, shape, mean, right, left);
  for (std::size_t i = 0; i < 80; ++i) CHECK(0.5F * (left_a[i] + left_b[i]) == Approx(left[i]).margin(1e-5));
  REQUIRE(low_rank_orthonormalise(left, 40));
  low_rank_right(pool, shape, a, left, right_a);
  low_rank_right(pool, shape, b, left, right_b);
  low_rank_right(pool, shape, mean, left, right);
  for (std::size_t i = 0; i < 100; ++i) CHECK(0.5F * (right_a[i] + right_b[i]) == Approx(right[i]).margin(1e-5));
}

TEST_CASE("low rank: orthonormal whatever comes, and the same space where there is one", "[kernels][fast]") {
  std::vector<float> factor = codec_checks::values(8 * 300);
  const auto before = factor;
  REQUIRE(low_rank_orthonormalise(factor, 300));
  CHECK(skew(factor, 300) < 1e-6);
  for (std::size_t k = 0; k < 8; ++k) {  // each old vector is the sum of its projections
    double squares = 0;
    for (std::size_t l = 0; l <= k; ++l) squares += std::pow(dot(before.data() + k * 300, factor.data() + l * 300, 300), 2);
    CHECK(squares == Approx(dot(before.data() + k * 300, before.data() + k * 300, 300)).epsilon(1e-5));
  }
  std::vector<float> near(2 * 300, 1.0F);  // almost parallel: one round of Gram-Schmidt would not do
  near[300] = 1.01F;
  REQUIRE(low_rank_orthonormalise(near, 300));
  CHECK(skew(near, 300) < 1e-6);
  for (const float size : {1e-38F, 1e30F}) {
    std::vector<float> scaled(before);
    for (float& v : scaled) v *= size;
    REQUIRE(low_rank_orthonormalise(scaled, 300));
    CHECK(skew(scaled, 300) < 1e-6);
  }
}

TEST_CASE("low rank: vectors that add nothing become new directions, the same on all peers", "[kernels][fast]") {
  std::vector<float> zeros(4 * 100, 0.0F), equal(4 * 100, 2.0F), again(4 * 100, 0.0F), square(25, 1.0F);
  REQUIRE(low_rank_orthonormalise(zeros, 100));
  REQUIRE(low_rank_orthonormalise(again, 100));
  REQUIRE(low_rank_orthonormalise(equal, 100));
  REQUIRE(low_rank_orthonormalise(square, 5));  // as many as there are dimensions
  CHECK(skew(zeros, 100) < 1e-6);
  CHECK(skew(equal, 100) < 1e-6);
  CHECK(skew(square, 5) < 1e-6);
  CHECK(codec_checks::same_bits(zeros, again));
  CHECK(equal[0] == Approx(0.1));
}

TEST_CASE("low rank: NaN and infinity are errors, not new directions", "[kernels][fast]") {
  for (const float poison : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> factor(20, 1.0F);
    factor[13] = poison;
    CHECK(low_rank_orthonormalise(factor, 10).error().code == errc::non_finite);
  }
}

TEST_CASE("low rank: neither thread count nor instruction set change a bit", "[kernels][fast]") {
  thread_pool alone{1}, three{3};
  for (const low_rank_shape shape : {low_rank_shape{3, 5, 1}, low_rank_shape{150, 333, 4}, low_rank_shape{333, 700, 7}}) {
    const auto matrix = codec_checks::values(shape.matrix_size());
    std::vector<float> right(shape.right_size()), left(shape.left_size()), back(right.size()), product(matrix.size());
    low_rank_start(shape, 6, right);
    low_rank_left(alone, shape, matrix, right, left, kernels::simd_level::portable);
    REQUIRE(low_rank_orthonormalise(left, shape.rows, kernels::simd_level::portable));
    low_rank_right(alone, shape, matrix, left, back, kernels::simd_level::portable);
    low_rank_expand(alone, shape, left, back, product, kernels::simd_level::portable);
    for (const auto level : support::simd_levels()) {
      std::vector<float> left2(left.size()), back2(back.size()), product2(product.size());
      low_rank_left(three, shape, matrix, right, left2, level);
      REQUIRE(low_rank_orthonormalise(left2, shape.rows, level));
      low_rank_right(three, shape, matrix, left2, back2, level);
      low_rank_expand(three, shape, left2, back2, product2, level);
      CHECK(codec_checks::same_bits(left, left2));
      CHECK(codec_checks::same_bits(back, back2));
      CHECK(codec_checks::same_bits(product, product2));
    }
  }
}

TEST_CASE("low rank: ranks that cannot be are named", "[kernels][fast]") {
  CHECK(validate(low_rank_shape{10, 20, 10}));
  CHECK(validate(low_rank_shape{10, 20, 11}).error().code == errc::invalid_argument);
  CHECK_FALSE(validate(low_rank_shape{10, 20, 0}));
}
