// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/bodies/attention_forward_body.hpp>

#include "cuda/attention_case.hpp"
#include "cuda/host_warp.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

using namespace causeway;
using causeway_test::attention_case;
using causeway_test::attention_size;
using causeway_test::relative_distance;

template <int HeadSize, int RowTiles, int Warps, int Keys>
causeway_test::warp_report forward(attention_case<bf16>& c) {
  const bf16* p = c.qkv.data();
  const cuda::attention_forward_body<HeadSize, RowTiles, Warps, Keys> body{c.shape,    p,          p + c.k_at,
                                                                           p + c.v_at, c.o.data(), c.logsumexp.data()};
  return causeway_test::run_blocks(body);
}

template <int HeadSize, int RowTiles, int Warps, int Keys>
void compare(const attention_size& size) {
  CAPTURE(HeadSize, RowTiles, Warps, Keys, size.batch, size.T, size.heads, size.kv_heads);
  attention_case<float> exact{size};
  exact.forward_on_cpu();
  attention_case<bf16> got{size};
  const auto report = forward<HeadSize, RowTiles, Warps, Keys>(got);
  CHECK(relative_distance(got.o, exact.o) < 4e-3);
  CHECK(relative_distance(got.logsumexp, exact.logsumexp) < 2e-6);
  CHECK(report.conflicts == 0);
  CHECK(report.misplaced == 0);
}

}  // namespace

TEST_CASE("cuda attention: output and logsumexp are the CPU's, for any length and number of heads", "[cuda][fast]") {
  for (const std::int64_t T : {1, 15, 16, 17, 63, 64, 65, 130}) {
    compare<64, 1, 2, 32>({1, T, 1, 1, 64});
    compare<64, 2, 2, 64>({2, T, 2, 1, 64});
    compare<128, 1, 2, 32>({1, T, 3, 1, 128});
  }
  compare<64, 1, 1, 16>({1, 50, 1, 1, 64});
  compare<64, 2, 4, 64>({1, 300, 4, 2, 64});
  compare<128, 1, 4, 64>({1, 200, 2, 2, 128});
}

TEST_CASE("cuda attention: scores of plus and minus ten thousand stay finite", "[cuda][fast]") {
  attention_case<float> exact{{1, 70, 1, 1, 64}, 100.0F};
  exact.forward_on_cpu();
  attention_case<bf16> got{{1, 70, 1, 1, 64}, 100.0F};
  (void)forward<64, 1, 2, 32>(got);
  CHECK(*std::max_element(got.logsumexp.begin(), got.logsumexp.end()) > 1e4F);
  CHECK(relative_distance(got.logsumexp, exact.logsumexp) < 2e-6);
  CHECK(relative_distance(got.o, exact.o) < 4e-3);
}

TEST_CASE("cuda attention: a later token changes no bit of an earlier one", "[cuda][fast]") {
  const attention_size size{1, 100, 2, 1, 64};
  attention_case<bf16> before{size}, after{size};
  constexpr std::int64_t changed = 41;
  const std::int64_t row = after.shape.q_stride;
  for (std::size_t i = static_cast<std::size_t>(changed * row); i < after.qkv.size(); ++i) after.qkv[i] = bf16(3.0F);
  (void)forward<64, 1, 2, 32>(before);
  (void)forward<64, 1, 2, 32>(after);
  const auto same = static_cast<std::size_t>(changed * after.shape.o_stride);
  CHECK(std::memcmp(before.o.data(), after.o.data(), same * sizeof(bf16)) == 0);
  CHECK(std::memcmp(before.o.data() + same, after.o.data() + same, sizeof(bf16) * 64) != 0);
}

TEST_CASE("cuda attention: tiles of other sizes are the same softmax", "[cuda][fast]") {
  const attention_size size{1, 150, 1, 1, 64};
  attention_case<bf16> narrow{size}, wide{size};
  (void)forward<64, 1, 1, 16>(narrow);
  (void)forward<64, 2, 2, 64>(wide);
  CHECK(relative_distance(narrow.o, wide.o) < 4e-3);
  CHECK(relative_distance(narrow.logsumexp, wide.logsumexp) < 1e-6);
}
