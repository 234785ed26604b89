// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/packed_gemm_blocking.hpp>

#include "support/catch.hpp"

#include <cstdint>

using namespace causeway;
using namespace causeway::kernels;
using namespace causeway::kernels::detail;

TEST_CASE("packed gemm blocking: blocks are equal, whole units, and within the limit", "[kernels][fast]") {
  CHECK(even_block(768, 384, 16) == 384);
  CHECK(even_block(400, 384, 16) == 208);
  CHECK(even_block(0, 384, 16) == 16);
  CHECK(even_block(5, 384, 16) == 16);
  for (std::int64_t count = 1; count < 3000; count += 7) {
    const std::int64_t block = even_block(count, 384, 16);
    CHECK(block <= 384);
    CHECK(block % 16 == 0);
    CHECK(divide_up(count, block) <= divide_up(count, 384));
  }
}

TEST_CASE("packed gemm blocking: threads cut the longer side, and never more parts than threads", "[kernels][fast]") {
  CHECK(choose_grid(256, 4096, 32, 2).columns == 2);
  CHECK(choose_grid(4096, 256, 32, 2).rows == 2);
  CHECK(choose_grid(1024, 1024, 32, 4).size() == 4);
  CHECK(choose_grid(1, 8192, 32, 3).columns == 3);
  CHECK(choose_grid(8192, 1, 32, 3).rows == 3);
  for (unsigned threads = 1; threads < 20; ++threads) CHECK(choose_grid(640, 480, 32, threads).size() <= threads);
}

TEST_CASE("packed gemm blocking: an operand is addressed by lane and depth, stored either way", "[kernels][fast]") {
  const float memory[12] = {};
  gemm_args<float, float> args{.m = 3, .n = 3, .k = 4, .a = memory, .lda = 4, .b = memory, .ldb = 3};
  CHECK(left_operand(args).at(2, 1).data == memory + 2 * 4 + 1);
  CHECK(right_operand(args).at(2, 1).data == memory + 1 * 3 + 2);
  args.transpose_a = true;
  args.lda = 3;
  args.transpose_b = true;
  args.ldb = 4;
  CHECK(left_operand(args).at(2, 1).data == memory + 1 * 3 + 2);
  CHECK(right_operand(args).at(2, 1).data == memory + 2 * 4 + 1);
}

TEST_CASE("packed gemm blocking: what is left of a block to fetch is counted in lines", "[kernels][fast]") {
  const float memory[40 * 100] = {};
  // 20 lanes of 33 successive values: three lines each.
  fetch_ahead along_depth{operand<float>{memory, 100, 1}, 20, 33};
  CHECK(along_depth.lines() == 20 * 3);
  along_depth.fetch(4);
  CHECK(along_depth.lines() == 20 * 3 - 4);
  // 33 values of k, for each of which 20 lanes lie together: two lines each.
  fetch_ahead along_lanes{operand<float>{memory, 1, 100}, 20, 33};
  CHECK(along_lanes.lines() == 33 * 2);
  along_lanes.fetch(1000);
  CHECK(along_lanes.lines() == 0);
  along_lanes.fetch(1);
  CHECK(along_lanes.lines() == 0);
  CHECK(fetch_ahead{}.lines() == 0);
}
