// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/bodies/attention_plain_bodies.hpp>

#include "cuda/attention_case.hpp"
#include "cuda/thread_group.hpp"
#include "support/catch.hpp"

#include <cstdint>

namespace {

using namespace causeway;
using causeway_test::attention_case;
using causeway_test::attention_size;
using causeway_test::relative_distance;

template <class Body>
void over_items(int threads, const Body& body) {
  causeway_test::with_group(threads, [&](auto& g) {
    for (std::int64_t item = 0; item < body.items(); ++item) body.template run<1>(g, item);
  });
}

void compare(const attention_size& size, int threads) {
  CAPTURE(size.batch, size.T, size.heads, size.kv_heads, size.head_size, threads);
  attention_case<float> expected{size}, got{size};
  expected.forward_on_cpu();
  expected.backward_on_cpu();
  const float* const p = got.qkv.data();
  float* const g = got.d_qkv.data();
  const cuda::attention_gradient_operands<float> x{
      p, p + got.k_at, p + got.v_at, got.o.data(), got.d_o.data(), got.logsumexp.data(), got.correction.data()};
  over_items(threads, cuda::attention_plain_forward_body{got.shape, x.q, x.k, x.v, got.o.data(), got.logsumexp.data()});
  over_items(threads, cuda::attention_correction_body<float>{got.shape, x});
  over_items(threads, cuda::attention_plain_query_gradient_body{got.shape, x, g});
  over_items(threads, cuda::attention_plain_key_gradient_body{got.shape, x, g + got.k_at, g + got.v_at});
  CHECK(relative_distance(got.o, expected.o) < 2e-6);
  CHECK(relative_distance(got.logsumexp, expected.logsumexp) < 2e-6);
  CHECK(relative_distance(got.d_qkv, expected.d_qkv) < 5e-6);
}

}  // namespace

TEST_CASE("cuda attention: in f32 it is the CPU's, for any length, head size and number of heads", "[cuda][fast]") {
  for (const int threads : {1, 3, 8}) {
    compare({1, 1, 1, 1, 5}, threads);
    compare({2, 19, 2, 1, 7}, threads);
    compare({1, 33, 6, 2, 16}, threads);
  }
  compare({1, 200, 2, 2, 64}, 4);
  compare({1, 130, 1, 1, 128}, 1);
}
