// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/bodies/attention_backward_bodies.hpp>

#include <causeway/cuda/bodies/attention_key_gradient_body.hpp>

#include "cuda/attention_case.hpp"
#include "cuda/host_warp.hpp"
#include "cuda/thread_group.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <vector>

namespace {

using namespace causeway;
using causeway_test::attention_case;
using causeway_test::attention_size;
using causeway_test::relative_distance;

template <class Act>
cuda::attention_gradient_operands<Act> operands_of(attention_case<Act>& c) {
  const Act* p = c.qkv.data();
  return {p, p + c.k_at, p + c.v_at, c.o.data(), c.d_o.data(), c.logsumexp.data(), c.correction.data()};
}

template <class Act>
void correct(attention_case<Act>& c, int threads) {
  const cuda::attention_correction_body<Act> body{c.shape, operands_of(c)};
  causeway_test::with_group(threads, [&](auto& g) {
    for (std::int64_t item = 0; item < body.items(); ++item) {
      if (body.aligned()) {
        body.template run<cuda::pack_width>(g, item);
      } else {
        body.template run<1>(g, item);
      }
    }
  });
}

/// The gradient of queries by tiles of `Keys` keys, that of keys and values by tiles of `Queries` queries.
template <int HeadSize, int RowTiles, int Warps, int Keys, int Queries>
void compare(const attention_size& size) {
  CAPTURE(HeadSize, RowTiles, Warps, Keys, Queries, size.batch, size.T, size.heads, size.kv_heads);
  attention_case<float> exact{size};
  exact.forward_on_cpu();
  exact.backward_on_cpu();
  attention_case<bf16> got{size};
  got.forward_on_cpu();
  correct(got, 1);
  bf16* const g = got.d_qkv.data();
  const cuda::attention_query_gradient_body<HeadSize, RowTiles, Warps, Keys> queries{got.shape, operands_of(got), g};
  const cuda::attention_key_gradient_body<HeadSize, RowTiles, Warps, Queries> keys{got.shape, operands_of(got),
                                                                                   g + got.k_at, g + got.v_at};
  for (const auto& report : {causeway_test::run_blocks(queries), causeway_test::run_blocks(keys)}) {
    CHECK(report.conflicts == 0);
    CHECK(report.misplaced == 0);
  }
  CHECK(relative_distance(got.d_qkv, exact.d_qkv) < 6e-3);
}

}  // namespace

TEST_CASE("cuda attention: gradients are the CPU's, for any length and number of heads", "[cuda][fast]") {
  for (const std::int64_t T : {1, 15, 17, 33, 64, 65, 130}) {
    compare<64, 1, 2, 32, 32>({1, T, 1, 1, 64});
    compare<64, 2, 2, 64, 32>({2, T, 2, 1, 64});
    compare<128, 1, 2, 32, 16>({1, T, 3, 1, 128});
  }
  compare<64, 1, 1, 16, 16>({1, 50, 1, 1, 64});
  compare<64, 2, 4, 32, 64>({1, 300, 4, 2, 64});
  compare<128, 1, 4, 32, 32>({1, 200, 2, 2, 128});
}
