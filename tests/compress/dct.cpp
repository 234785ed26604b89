// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/dct.hpp>

#include "compress/message_checks.hpp"
#include "support/catch.hpp"

#include <causeway/core/hash.hpp>

#include <numbers>

using namespace causeway;
using namespace causeway::compress;

namespace {

std::vector<float> forward(const dct_tiles& dct, const message_context& ctx, const std::vector<float>& x) {
  std::vector<float> y(x.size(), 99.0F);
  dct.forward(ctx, x, y);
  return y;
}

double norm(std::span<const float> x) {
  double sum = 0;
  for (const float v : x) sum += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(sum);
}

double cosine(std::size_t k, std::size_t i, std::size_t n) {
  const double scale = std::sqrt((k == 0 ? 1.0 : 2.0) / static_cast<double>(n));
  return scale * std::cos(std::numbers::pi * static_cast<double>((2 * i + 1) * k) / static_cast<double>(2 * n));
}

}  // namespace

TEST_CASE("dct: four values whose coefficients are known", "[compress][fast]") {
  thread_pool pool{1};
  const auto y = forward(dct_tiles{}, {.pool = pool}, {1, 2, 3, 4});
  CHECK(y[0] == Approx(5));
  CHECK(y[1] == Approx(-2.23044250));
  CHECK(std::abs(y[2]) < 1e-6);
  CHECK(y[3] == Approx(-0.15851267));
}

TEST_CASE("dct: a constant tile is one coefficient, and a cosine is one", "[compress][fast]") {
  thread_pool pool{1};
  const std::vector<matrix_range> matrices{{.offset = 0, .rows = 64, .columns = 64}};
  const message_context ctx{.pool = pool, .matrices = matrices};
  auto y = forward(dct_tiles{}, ctx, std::vector<float>(4096, 0.5F));
  CHECK(y[0] == Approx(0.5 * 64));
  y[0] = 0;
  CHECK(norm(y) < 1e-4);
  std::vector<float> wave(4096);
  for (std::size_t i = 0; i < 4096; ++i) wave[i] = static_cast<float>(cosine(3, i / 64, 64) * cosine(17, i % 64, 64));
  y = forward(dct_tiles{}, ctx, wave);
  CHECK(y[3 * 64 + 17] == Approx(1));
  y[3 * 64 + 17] = 0;
  CHECK(norm(y) < 1e-5);
}

TEST_CASE("dct: the basis is that of the formula, to the last bits, and orthonormal", "[compress][fast]") {
  for (const std::size_t n : {1U, 2U, 3U, 7U, 29U, 33U, 50U, 64U}) {
    compress::detail::dct_basis basis;
    compress::detail::fill_dct_basis(basis, n);
    double worst = 0, skew = 0;
    for (std::size_t k = 0; k < n; ++k) {
      for (std::size_t i = 0; i < n; ++i) {
        const double have = static_cast<double>(basis.forward.at[k * 64 + i]);
        worst = std::max(worst, std::abs(have - cosine(k, i, n)));
        REQUIRE(basis.transposed.at[i * 64 + k] == basis.forward.at[k * 64 + i]);
        double product = 0;
        for (std::size_t j = 0; j < n; ++j) {
          product += static_cast<double>(basis.forward.at[k * 64 + j]) * static_cast<double>(basis.forward.at[i * 64 + j]);
        }
        skew = std::max(skew, std::abs(product - (k == i ? 1.0 : 0.0)));
      }
    }
    CHECK(worst < 6e-8);
    CHECK(skew < 1e-6);
  }
}

TEST_CASE("dct: golden bits, which all versions and machines must compute", "[compress][fast]") {
  compress::detail::dct_basis basis;
  compress::detail::fill_dct_basis(basis, 64);
  CHECK(hash_bytes(std::as_bytes(std::span{&basis, 1})) == 0xBBD634EB16526A31U);
}

TEST_CASE("dct: every tile is transformed as the formula says, whatever its shape", "[compress][fast]") {
  thread_pool pool{1};
  const message_context ctx{.pool = pool, .matrices = message_checks::matrices};
  const auto x = codec_checks::values(message_checks::row_size);
  const auto y = forward(dct_tiles{}, ctx, x);
  double worst = 0;
  for (const chunk_grid& grid : cut_into_chunks({}, ctx.matrices, x.size())) {
    const std::size_t index = grid.count() - 1, rows = grid.rows, columns = grid.columns;
    for (std::size_t k = 0; k < rows; k += 7) {
      for (std::size_t l = 0; l < columns; l += 5) {
        double sum = 0;
        for (std::size_t r = 0; r < rows; ++r) {
          for (std::size_t c = 0; c < columns; ++c) {
            const float value = x[grid.begin_of(index) + r * grid.stride + c];
            sum += cosine(k, r, rows) * cosine(l, c, columns) * static_cast<double>(value);
          }
        }
        worst = std::max(worst, std::abs(sum - static_cast<double>(y[grid.begin_of(index) + k * grid.stride + l])));
      }
    }
  }
  CHECK(worst < 2e-4);
}

TEST_CASE("dct: it keeps norms, and the inverse gives the values back", "[compress][fast]") {
  thread_pool pool{1};
  for (const std::size_t rows : {1U, 2U, 29U, 64U, 97U, 130U}) {
    const std::vector<matrix_range> matrices{{.offset = 0, .columns = 3},
                                             {.offset = 3, .rows = rows, .columns = 131},
                                             {.offset = 3 + rows * 131, .columns = 70}};
    const message_context ctx{.pool = pool, .matrices = matrices};
    const auto x = codec_checks::values(3 + rows * 131 + 70);
    auto y = forward(dct_tiles{}, ctx, x);
    CHECK(norm(y) == Approx(norm(x)).epsilon(1e-5));
    CHECK_FALSE(codec_checks::same_bits(x, y));
    dct_tiles{}.inverse(ctx, y);
    for (std::size_t i = 0; i < x.size(); ++i) y[i] -= x[i];
    CHECK(norm(y) < 1e-6 * norm(x));
  }
}

TEST_CASE("dct: neither thread count nor instruction set change a bit", "[compress][fast]") {
  thread_pool alone{1}, three{3};
  const std::vector<matrix_range> matrices{{.offset = 0, .columns = 20000}, {.offset = 20000, .rows = 194, .columns = 300}};
  const message_context one{.pool = alone, .matrices = matrices}, many{.pool = three, .matrices = matrices};
  const auto x = codec_checks::values(20000 + 194 * 300);
  const dct_tiles dct;
  const auto y = forward(dct, one, x);
  auto back = y;
  dct.inverse(one, back);
  for (const auto level : support::simd_levels()) {
    INFO(to_string(level));
    std::vector<float> again(x.size());
    dct.forward(many, x, again, level);
    CHECK(codec_checks::same_bits(again, y));
    dct.inverse(many, again, level);
    CHECK(codec_checks::same_bits(again, back));
  }
}

TEST_CASE("dct: NaN stays within its tile", "[compress][fast]") {
  thread_pool pool{1};
  auto x = codec_checks::values(192);
  x[70] = std::numeric_limits<float>::quiet_NaN();
  const auto y = forward(dct_tiles{}, {.pool = pool}, x);
  for (std::size_t i = 0; i < 192; ++i) CHECK(std::isnan(y[i]) == (i / 64 == 1));
}
