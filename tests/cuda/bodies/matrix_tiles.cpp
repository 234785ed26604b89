// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/bodies/matrix_tiles.hpp>

#include "cuda/body_support.hpp"
#include "cuda/host_warp.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

namespace {

using namespace causeway;
using namespace causeway::cuda;
namespace tiles = causeway::cuda::detail;
using causeway_test::host_warp;
using causeway_test::numbers;

/// A block of one warp, and 128-byte aligned shared memory for two tiles of 32 rows.
template <int Columns>
struct one_warp {
  alignas(128) bf16 memory[2 * 32 * Columns] = {};
  causeway_test::thread_barrier gate{1};
  host_warp w{0, gate};
  shared_tile<Columns> first{memory}, second{memory + 32 * Columns};

  void fill(shared_tile<Columns> to, const std::vector<bf16>& from, std::int64_t rows = 32) {
    tiles::copy_rows<32, 1>(w, to, from.data(), Columns, 0, rows);
    w.commit();
    w.wait<0>();
  }
};

template <int M, int N, class F>
void each_sum(const tile_sum<host_warp, M, N>& sums, F&& f) {
  for (int row = 0; row < 16 * M; ++row) {
    for (int column = 0; column < 8 * N; ++column) {
      const int lane = row % 8 * 4 + column % 8 / 2, i = row % 16 / 8 * 2 + column % 2;
      f(row, column, sums.at[row / 16][column / 8][lane][i]);
    }
  }
}

double value(const std::vector<bf16>& x, int at) {
  return static_cast<double>(static_cast<float>(x[static_cast<std::size_t>(at)]));
}

template <int Columns>
void check_products() {
  one_warp<Columns> here;
  auto& w = here.w;
  const auto a = numbers<bf16>(32 * Columns, 1, 0.1F), b = numbers<bf16>(32 * Columns, 2, 0.1F);
  here.fill(here.first, a);
  here.fill(here.second, b);

  tile_sum<host_warp, 2, 4> scores;  // 32 x 32
  tiles::clear(w, scores);
  tiles::multiply_by_rows(w, scores, here.first, 0, here.second);
  each_sum(scores, [&](int row, int column, float found) {
    double expected = 0;
    for (int k = 0; k < Columns; ++k) expected += value(a, row * Columns + k) * value(b, column * Columns + k);
    REQUIRE(static_cast<double>(found) == Approx(expected).epsilon(1e-5).margin(1e-5));
  });

  tile_sum<host_warp, 2, Columns / 8> product;
  tiles::clear(w, product);
  tiles::multiply_held(w, product, scores, here.second);
  std::vector<float> left(32 * 32);
  each_sum(scores, [&](int row, int column, float v) { left[static_cast<std::size_t>(row * 32 + column)] = v; });
  each_sum(product, [&](int row, int column, float found) {
    double expected = 0;
    for (int k = 0; k < 32; ++k) {
      const auto rounded = static_cast<float>(bf16(left[static_cast<std::size_t>(row * 32 + k)]));
      expected += static_cast<double>(rounded) * value(b, k * Columns + column);
    }
    REQUIRE(static_cast<double>(found) == Approx(expected).epsilon(1e-5).margin(1e-5));
  });
  CHECK(w.conflicts() == 0);
  CHECK(w.misplaced() == 0);

  std::vector<bf16> out(32 * (Columns + 8), bf16(7.0F));  // rows 8 values apart, the last 3 not wanted
  tiles::store_rows(w, product, here.first, 0, out.data(), Columns + 8, 0, 29);
  each_sum(product, [&](int row, int column, float v) {
    const auto at = static_cast<std::size_t>(row * (Columns + 8) + column);
    REQUIRE(out[at] == (row < 29 ? bf16(v) : bf16(7.0F)));
  });
}

}  // namespace

TEST_CASE("cuda tiles: products of tiles, and of sums with tiles, are right and free of bank conflicts", "[cuda][fast]") {
  check_products<64>();
  check_products<128>();
}

TEST_CASE("cuda tiles: each value has one place; rows beyond the matrix are zero", "[cuda][fast]") {
  one_warp<128> here;
  std::set<const bf16*> places;
  for (int row = 0; row < 32; ++row) {
    for (int c = 0; c < 16; ++c) places.insert(here.first.at(row, c));
  }
  CHECK(places.size() == 512);
  CHECK(*places.begin() == here.memory);
  CHECK(*places.rbegin() == here.memory + 32 * 128 - 8);

  const auto values = numbers<bf16>(32 * 128, 4);
  here.fill(here.first, values, 20);
  for (int row = 0; row < 32; ++row) {
    for (int column = 0; column < 128; ++column) {
      const bf16 found = here.first.at(row, column / 8)[column % 8];
      REQUIRE(found == (row < 20 ? values[static_cast<std::size_t>(row * 128 + column)] : bf16(0.0F)));
    }
  }
}

TEST_CASE("cuda tiles: masks cut along a diagonal at any offset", "[cuda][fast]") {
  one_warp<64> here;
  for (const int offset : {-40, -5, 0, 1, 17, 40}) {
    tile_sum<host_warp, 2, 4> right, left;
    tiles::clear(here.w, right);
    tiles::clear(here.w, left);
    tiles::mask<tiles::masked::right_of_diagonal>(here.w, right, offset);
    tiles::mask<tiles::masked::left_of_diagonal>(here.w, left, offset);
    each_sum(right, [&](int row, int column, float v) { REQUIRE(std::isinf(v) == (column > row + offset)); });
    each_sum(left, [&](int row, int column, float v) { REQUIRE(std::isinf(v) == (column < row + offset)); });
  }
}
