// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/bodies/warp.hpp>

#include "cuda/body_support.hpp"
#include "cuda/host_warp.hpp"
#include "support/catch.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using namespace causeway;
using causeway_test::host_warp;

std::uint32_t two(bf16 low, bf16 high) { return low.bits | static_cast<std::uint32_t>(high.bits) << 16U; }

}  // namespace

// The figures "MMA .m16n8k16 fragment layout" of the PTX manual, line by line.
TEST_CASE("cuda warp: the host's matrix step has the device's fragments", "[cuda][fast]") {
  const auto a = causeway_test::numbers<bf16>(16 * 16, 1), b = causeway_test::numbers<bf16>(16 * 16, 2);
  const auto at_a = [&](int row, int column) { return a[static_cast<std::size_t>(row * 16 + column)]; };
  const auto at_b = [&](int row, int column) { return b[static_cast<std::size_t>(row * 16 + column)]; };
  cuda::fragment<host_warp> left, right;
  cuda::fragment_sum<host_warp> sums[2];
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane / 4, in_group = lane % 4 * 2;
    left[lane][0] = two(at_a(group, in_group), at_a(group, in_group + 1));
    left[lane][1] = two(at_a(group + 8, in_group), at_a(group + 8, in_group + 1));
    left[lane][2] = two(at_a(group, in_group + 8), at_a(group, in_group + 9));
    left[lane][3] = two(at_a(group + 8, in_group + 8), at_a(group + 8, in_group + 9));
    for (int half = 0; half < 2; ++half) {
      right[lane][2 * half] = two(at_b(in_group, group + 8 * half), at_b(in_group + 1, group + 8 * half));
      right[lane][2 * half + 1] = two(at_b(in_group + 8, group + 8 * half), at_b(in_group + 9, group + 8 * half));
      for (int i = 0; i < 4; ++i) sums[half][lane][i] = 0.5F;
    }
  }
  host_warp::multiply<0>(sums[0], left, right);
  host_warp::multiply<1>(sums[1], left, right);
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 16; ++column) {
      double expected = 0.5;
      for (int k = 0; k < 16; ++k) {
        expected += static_cast<double>(static_cast<float>(at_a(row, k))) *
                    static_cast<double>(static_cast<float>(at_b(k, column)));
      }
      const int lane = row % 8 * 4 + column % 8 / 2, i = row / 8 * 2 + column % 2;
      CHECK(static_cast<double>(sums[column / 8][lane][i]) == Approx(expected).margin(1e-4));
    }
  }
}

TEST_CASE("cuda warp: four matrices are loaded as rows, or transposed", "[cuda][fast]") {
  alignas(128) std::uint16_t memory[32][8];
  for (int row = 0; row < 32; ++row) {
    for (int column = 0; column < 8; ++column) memory[row][column] = static_cast<std::uint16_t>(row * 8 + column);
  }
  causeway_test::thread_barrier gate{1};
  host_warp w{0, gate};
  cuda::fragment<host_warp> rows, columns;
  w.load(rows, [&](int lane) { return memory[lane]; });
  w.load_transposed(columns, [&](int lane) { return memory[lane]; });
  for (int lane = 0; lane < 32; ++lane) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      const int first = matrix * 8 + lane / 4, pair = lane % 4 * 2;
      CHECK(rows[lane][matrix] == (memory[first][pair] | static_cast<std::uint32_t>(memory[first][pair + 1]) << 16U));
      const auto upper = memory[matrix * 8 + pair][lane / 4], lower = memory[matrix * 8 + pair + 1][lane / 4];
      CHECK(columns[lane][matrix] == (upper | static_cast<std::uint32_t>(lower) << 16U));
    }
  }
  CHECK(w.conflicts() == 0);  // 128 bytes in a row
  w.load(rows, [&](int) { return memory[0]; });
  CHECK(w.conflicts() == 4 * 7);
}

TEST_CASE("cuda warp: copies arrive at the wait for them, and what lies beyond is zero", "[cuda][fast]") {
  alignas(16) float from[8] = {1, 2, 3, 4, 5, 6, 7, 8}, to[8] = {9, 9, 9, 9, 9, 9, 9, 9};
  causeway_test::thread_barrier gate{1};
  host_warp w{0, gate};
  w.copy<16>(to, from, true);
  w.commit();
  w.copy<4>(to + 4, from + 4, true);
  w.copy<4>(to + 5, from + 5, false);
  w.commit();
  CHECK(to[0] == 9);
  w.wait<1>();
  CHECK(to[3] == 4);
  CHECK(to[4] == 9);
  w.wait<0>();
  CHECK(to[4] == 5);
  CHECK(to[5] == 0);
  CHECK(w.misplaced() == 0);
  w.copy<16>(to + 1, from, true);
  CHECK(w.misplaced() != 0);
}

TEST_CASE("cuda warp: values are rounded to bf16 in pairs, and powers of two are close", "[cuda][fast]") {
  for (const float v : causeway_test::numbers(1000, 3)) {
    CHECK(cuda::detail::packed_bf16(v, -v) == two(bf16(v), bf16(-v)));
    CHECK(cuda::detail::power_of_two(v) == Approx(std::exp2(v)).epsilon(1e-6));
  }
  CHECK(cuda::detail::power_of_two(-std::numeric_limits<float>::infinity()) == 0.0F);
  CHECK(std::isnan(static_cast<float>(std::bit_cast<bf16>(
      static_cast<std::uint16_t>(cuda::detail::packed_bf16(std::numeric_limits<float>::quiet_NaN(), 0.0F))))));
}
