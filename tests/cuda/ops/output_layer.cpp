// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/ops/output_layer.hpp>

#include <causeway/kernels/cross_entropy.hpp>
#include <causeway/kernels/packed_gemm.hpp>

#include "cuda/attention_case.hpp"
#include "cuda/body_support.hpp"
#include "cuda/host_queue.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <vector>

namespace {

using namespace causeway;
using causeway_test::relative_distance;

template <class Act>
void compare(std::int64_t rows, std::int64_t V, bool training, double tolerance) {
  CAPTURE(rows, V, training, sizeof(Act));
  constexpr std::int64_t C = 9;
  rng draw{8};
  std::vector<Act> x, w;
  for (std::int64_t i = 0; i < rows * C; ++i) x.push_back(Act(draw.normal()));
  for (std::int64_t i = 0; i < V * C; ++i) w.push_back(Act(draw.normal()));
  std::vector<std::int32_t> targets;
  for (std::int64_t i = 0; i < rows; ++i) {
    targets.push_back(i % 5 == 3 ? -1 : static_cast<std::int32_t>(draw.below(static_cast<std::uint64_t>(V))));
  }
  std::vector<Act> dx(x.size(), Act(9.0F)), expected_dx = dx;
  std::vector<float> dw(w.size(), 0.5F), expected_dw = dw;
  thread_pool pool{1};
  scratch memory;
  kernels::packed_gemm gemm;
  const double expected =
      kernels::cross_entropy(pool, memory, gemm, x.data(), w.data(), targets.data(), rows, C, V, 0.25F,
                             training ? expected_dx.data() : nullptr, training ? expected_dw.data() : nullptr);
  causeway_test::host_queue q{std::make_shared<causeway_test::queue_report>()};
  double loss = -1.0;
  REQUIRE(cuda::output_layer(q, x.data(), w.data(), targets.data(), rows, C, V, 0.25F, training ? dx.data() : nullptr,
                             training ? dw.data() : nullptr, &loss, 1));  // chunks of 64 rows
  CHECK(loss == Approx(expected).epsilon(1e-5).margin(1e-5));
  CHECK(relative_distance(dx, expected_dx) < tolerance);
  CHECK(relative_distance(dw, expected_dw) < tolerance);
}

}  // namespace

TEST_CASE("cuda output layer: loss and both gradients are the CPU's, in chunks, for any vocabulary", "[cuda][fast]") {
  for (const std::int64_t V : {2, 41, 48}) {
    for (const std::int64_t rows : {1, 64, 65, 200}) {
      for (const bool training : {true, false}) {
        compare<float>(rows, V, training, 3e-5);
        compare<bf16>(rows, V, training, 1e-2);
      }
    }
  }
}

TEST_CASE("cuda output layer: chunks are equal, and as few as memory allows", "[cuda][fast]") {
  constexpr std::int64_t gpt2 = 50'257;
  STATIC_REQUIRE(cuda::logit_stride(gpt2) == 50'264);
  STATIC_REQUIRE(cuda::output_layer_rows(65'536, gpt2, cuda::output_layer_bytes) == 5'042);  // thirteen chunks
  STATIC_REQUIRE(cuda::output_layer_rows(100, gpt2, cuda::output_layer_bytes) == 100);
  STATIC_REQUIRE(cuda::output_layer_rows(0, gpt2, cuda::output_layer_bytes) == 0);
}
