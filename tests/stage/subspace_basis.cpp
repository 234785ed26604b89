// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/subspace_basis.hpp>

#include "stage/activation_checks.hpp"
#include "support/catch.hpp"

#include <causeway/core/hash.hpp>

#include <algorithm>
#include <cmath>

using namespace causeway;
using activation_checks::normal;
using stage::subspace_basis;

namespace {

subspace_basis basis_of(std::uint64_t seed, std::int64_t width, std::int64_t rank) {
  auto basis = subspace_basis::random(seed, width, rank);
  REQUIRE(basis);
  return *basis;
}

/// U·Uᵀ·x in f64.
std::vector<double> projected(const subspace_basis& basis, const float* x, std::size_t stride = 1) {
  std::vector<double> all(basis.width());
  for (std::size_t k = 0; k < basis.rank(); ++k) {
    const float* const u = basis.vectors().data() + k * basis.width();
    double along = 0;
    for (std::size_t i = 0; i < basis.width(); ++i) along += static_cast<double>(u[i]) * static_cast<double>(x[i * stride]);
    for (std::size_t i = 0; i < basis.width(); ++i) all[i] += along * static_cast<double>(u[i]);
  }
  return all;
}

}  // namespace

TEST_CASE("subspace_basis: orthonormal, of the shape asked for, and up to the whole stream", "[stage][fast]") {
  for (const std::int64_t rank : {1, 7, 48}) {
    const auto basis = basis_of(3, 48, rank);
    REQUIRE(basis.width() == 48);
    REQUIRE(basis.rank() == static_cast<std::size_t>(rank));
    for (std::size_t a = 0; a < basis.rank(); ++a) {
      for (std::size_t b = 0; b <= a; ++b) {
        double dot = 0;
        for (std::size_t i = 0; i < 48; ++i) {
          dot += static_cast<double>(basis.vectors()[a * 48 + i]) * static_cast<double>(basis.vectors()[b * 48 + i]);
        }
        REQUIRE(std::abs(dot - (a == b ? 1.0 : 0.0)) < 2e-6);
      }
    }
  }
  REQUIRE(subspace_basis::random(3, 48, 49).error().code == errc::invalid_argument);
  REQUIRE(subspace_basis::random(3, 48, 0).error().code == errc::invalid_argument);
}

TEST_CASE("subspace_basis: a function of seed, width and rank, to the bit on every machine", "[stage][fast]") {
  const auto hash = [](const subspace_basis& b) { return hash_bytes(std::as_bytes(b.vectors())); };
  REQUIRE(hash(basis_of(1, 96, 8)) == 0x3DF4C6DE0F28DEBD);
  REQUIRE(hash(basis_of(1, 96, 8)) == hash(basis_of(1, 96, 8)));
  REQUIRE(hash(basis_of(1, 96, 8)) != hash(basis_of(2, 96, 8)));
}

TEST_CASE("subspace_basis: coordinates and expand are x U and z U transposed, with the base added", "[stage][fast]") {
  thread_pool pool{2};
  scratch memory;
  const auto basis = basis_of(5, 40, 6);
  const auto x = normal(30 * 40, 1), base = normal(30 * 40, 2);
  std::vector<float> z(30 * 6), back(30 * 40), based(30 * 40);
  basis.coordinates(pool, memory, 30, x.data(), z.data());
  basis.expand(pool, memory, 30, z.data(), nullptr, back.data());
  basis.expand(pool, memory, 30, z.data(), base.data(), based.data());
  for (std::size_t row = 0; row < 30; ++row) {
    const auto expected = projected(basis, x.data() + row * 40);
    for (std::size_t i = 0; i < 40; ++i) {
      REQUIRE(std::abs(static_cast<double>(back[row * 40 + i]) - expected[i]) < 1e-5);
      const double with_base = expected[i] + static_cast<double>(base[row * 40 + i]);
      REQUIRE(std::abs(static_cast<double>(based[row * 40 + i]) - with_base) < 1e-5);
    }
  }
}

TEST_CASE("subspace_basis: projected tables have rows in the subspace, projected weights columns", "[stage][fast]") {
  thread_pool one{1}, three{3};
  const auto basis = basis_of(7, 40, 5);
  const auto matrix = normal(40 * 40, 3);  // square, so that a mistaken orientation shows in the values alone
  auto rows = matrix, columns = matrix, again = matrix;
  basis.project_rows(one, rows);
  basis.project_columns(one, columns);
  for (std::size_t v = 0; v < 40; ++v) {
    const auto by_row = projected(basis, matrix.data() + v * 40), by_column = projected(basis, matrix.data() + v, 40);
    for (std::size_t i = 0; i < 40; ++i) {
      REQUIRE(std::abs(static_cast<double>(rows[v * 40 + i]) - by_row[i]) < 1e-5);
      REQUIRE(std::abs(static_cast<double>(columns[i * 40 + v]) - by_column[i]) < 1e-5);
    }
  }
  basis.project_columns(three, again);
  REQUIRE(activation_checks::same_bits(again, columns));
  auto twice = columns;
  basis.project_columns(one, twice);
  for (std::size_t i = 0; i < twice.size(); ++i) REQUIRE(std::abs(twice[i] - columns[i]) < 1e-6F);
}

TEST_CASE("subspace_basis: a matrix that writes through projected weights gives outputs in the subspace", "[stage][fast]") {
  thread_pool pool{1};
  scratch memory;
  const auto basis = basis_of(9, 32, 4);
  auto weight = normal(32 * 20, 4);  // [outputs, inputs]
  basis.project_columns(pool, weight);
  const auto h = normal(6 * 20, 5);
  std::vector<float> y(6 * 32);
  for (std::size_t r = 0; r < 6; ++r) {
    for (std::size_t o = 0; o < 32; ++o) {
      for (std::size_t i = 0; i < 20; ++i) y[r * 32 + o] += h[r * 20 + i] * weight[o * 20 + i];
    }
  }
  std::vector<float> z(6 * 4), back(6 * 32);
  basis.coordinates(pool, memory, 6, y.data(), z.data());
  basis.expand(pool, memory, 6, z.data(), nullptr, back.data());
  for (std::size_t i = 0; i < y.size(); ++i) REQUIRE(std::abs(back[i] - y[i]) < 1e-5F);
}
