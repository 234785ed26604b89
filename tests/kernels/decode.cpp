// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/decode.hpp>

#include <causeway/core/rng.hpp>
#include <causeway/kernels/attention.hpp>
#include <causeway/tensor/scratch.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/catch.hpp"

namespace causeway::kernels {
namespace {

template <class Act>
std::vector<Act> random_values(std::int64_t count, std::uint64_t seed) {
  rng random{seed, 0};
  std::vector<Act> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(Act(random.uniform() * 2.0F - 1.0F));
  return values;
}

}  // namespace

TEMPLATE_TEST_CASE("decode: each row's attention to those before it is a row of causal attention", "[kernels][fast]", float,
                   bf16) {
  const std::int64_t T = 37, size = GENERATE(as<std::int64_t>{}, 8, 24);  // whole vectors and tails
  attention_shape s;
  s.batch = 1, s.T = T, s.heads = 4, s.kv_heads = 2, s.head_size = size, s.scale = 0.3F;
  s.q_stride = s.k_stride = s.v_stride = 8 * size;
  s.o_stride = 4 * size;
  const auto qkv = random_values<TestType>(T * s.q_stride, 7);
  std::vector<TestType> whole(static_cast<std::size_t>(T * s.o_stride)), row(static_cast<std::size_t>(s.o_stride));
  std::vector<float> sums(static_cast<std::size_t>(T * s.heads));
  thread_pool pool{2};
  scratch memory;
  const TestType *q = qkv.data(), *k = q + 4 * size, *v = k + 2 * size;
  attention_forward(pool, memory, s, q, k, v, whole.data(), sums.data());
  for (std::int64_t t = 0; t < T; ++t) {
    for (const simd_level level : {simd_level::portable, detect_simd_level()}) {
      decode_attention(pool, s, q + t * s.q_stride, k, v, t + 1, row.data(), level);
      for (std::int64_t i = 0; i < s.o_stride; ++i) {
        CHECK(static_cast<float>(row[static_cast<std::size_t>(i)]) ==
              Approx(static_cast<float>(whole[static_cast<std::size_t>(t * s.o_stride + i)]))
                  .margin(sizeof(TestType) == 4 ? 1e-5 : 2e-2));
      }
    }
  }
}

TEST_CASE("decode: a row turns as it would in its text, bit for bit", "[kernels][fast]") {
  const std::int64_t T = 9, heads = 3, size = 10;
  const rotary_table table{16, size, 100.0};
  auto whole = random_values<float>(T * heads * size, 3);
  auto rows = whole;
  thread_pool pool{1};
  rotary_apply(pool, table, whole.data(), 1, T, heads * size, heads, size, false);
  for (std::int64_t t = 0; t < T; ++t) rotary_turn(table, rows.data() + t * heads * size, heads, t);
  CHECK(rows == whole);
}

}  // namespace causeway::kernels
