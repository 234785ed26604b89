// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/singular_vectors.hpp>

#include <causeway/core/rng.hpp>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;

namespace {

std::vector<float> random_matrix(std::size_t rows, std::size_t columns) {
  rng random{mix(rows, columns, 3)};
  std::vector<float> all(rows * columns);
  for (float& x : all) x = 2.0F * random.uniform() - 1.0F;
  return all;
}

/// u·matrix·v
double product(const std::vector<float>& matrix, std::size_t columns, const float* u, const float* v) {
  double sum = 0;
  for (std::size_t i = 0; i < matrix.size(); ++i)
    sum += double{matrix[i]} * double{u[i / columns]} * double{v[i % columns]};
  return sum;
}

double dot(const float* a, const float* b, std::size_t n) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += double{a[i]} * double{b[i]};
  return sum;
}

using sides = std::pair<std::size_t, std::size_t>;

}  // namespace

TEST_CASE("singular vectors: between them a matrix is diagonal, the largest value first", "[kernels][fast]") {
  for (const auto& [rows, columns] : {sides{1, 1}, sides{7, 7}, sides{5, 12}, sides{12, 5}, sides{1, 6}, sides{40, 33}}) {
    CAPTURE(rows, columns);
    const auto matrix = random_matrix(rows, columns);
    std::vector<float> left(rows * rows), right(columns * columns);
    kernels::singular_vectors(matrix, rows, columns, left, right);
    double last = 1e30, squares = 0;
    const std::size_t count = std::min(rows, columns);
    for (std::size_t i = 0; i < count; ++i) {
      const float* const u = left.data() + i * rows;
      const float* const v = right.data() + i * columns;
      CHECK(dot(u, u, rows) == Approx(1).margin(1e-6));
      CHECK(dot(v, v, columns) == Approx(1).margin(1e-6));
      const double value = product(matrix, columns, u, v);
      CHECK(value <= last + 1e-6);
      last = value, squares += value * value;
      for (std::size_t j = 0; j < count; ++j) {
        if (j != i) CHECK(product(matrix, columns, u, right.data() + j * columns) == Approx(0).margin(1e-5));
      }
    }
    CHECK(squares == Approx(dot(matrix.data(), matrix.data(), matrix.size())).epsilon(1e-5));  // nothing is left out
  }
}

TEST_CASE("singular vectors: one side's are the same without the other's", "[kernels][fast]") {
  for (const auto& [rows, columns] : {sides{5, 12}, sides{12, 5}, sides{6, 6}}) {
    const auto matrix = random_matrix(rows, columns);
    std::vector<float> left(rows * rows), right(columns * columns), none;
    kernels::singular_vectors(matrix, rows, columns, left, right);
    std::vector<float> left_alone(rows * rows), right_alone(columns * columns);
    kernels::singular_vectors(matrix, rows, columns, left_alone, none);
    kernels::singular_vectors(matrix, rows, columns, none, right_alone);
    CHECK(left_alone == left);
    CHECK(right_alone == right);
  }
}

TEST_CASE("singular vectors: where a singular value is zero the longer side has zeros", "[kernels][fast]") {
  const std::vector<float> matrix{1, 2, 3, 2, 4, 6};  // rank 1
  std::vector<float> left(4), right(9);
  kernels::singular_vectors(matrix, 2, 3, left, right);
  CHECK(dot(left.data(), left.data() + 2, 2) == Approx(0).margin(1e-6));
  CHECK(dot(right.data(), right.data(), 3) == Approx(1).margin(1e-6));
  CHECK(std::all_of(right.begin() + 6, right.end(), [](float x) { return x == 0; }));
  const std::vector<float> zeros(6);
  kernels::singular_vectors(zeros, 2, 3, left, right);
  CHECK(dot(left.data(), left.data(), 2) == Approx(1));
  CHECK(std::all_of(right.begin(), right.end(), [](float x) { return x == 0; }));
}
