// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/bodies/cross_entropy_body.hpp>

#include <causeway/kernels/cross_entropy.hpp>

#include "cuda/body_support.hpp"
#include "cuda/thread_group.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using namespace causeway;
using causeway_test::distance;
using causeway_test::numbers;
using causeway_test::with_group;

constexpr float infinity = std::numeric_limits<float>::infinity();

struct outcome {
  std::vector<float> losses, gradient;
};

/// In place, as the library uses it, with rows `stride` apart.
template <class T>
outcome of_body(std::vector<T> logits, const std::vector<std::int32_t>& targets, std::int64_t V, std::int64_t stride,
                float scale, int threads) {
  outcome out{std::vector<float>(targets.size(), -1.0F), std::vector<float>(logits.size())};
  const cuda::cross_entropy_body<T, T> body{logits.data(), logits.data(), targets.data(), out.losses.data(), V,
                                            stride,        scale};
  with_group(threads, [&](auto& g) {
    for (std::int64_t row = 0; row < static_cast<std::int64_t>(targets.size()); ++row) {
      if (body.aligned()) {
        body.template run<cuda::pack_width>(g, row);
      } else {
        body.template run<1>(g, row);
      }
      g.sync();
    }
  });
  for (std::size_t i = 0; i < logits.size(); ++i) out.gradient[i] = static_cast<float>(logits[i]);
  return out;
}

template <class T>
outcome of_cpu(const std::vector<T>& logits, const std::vector<std::int32_t>& targets, std::int64_t V, std::int64_t stride,
               float scale) {
  outcome out{{}, std::vector<float>(logits.size())};
  for (std::size_t row = 0; row < targets.size(); ++row) {
    std::vector<float> work;
    const auto at = static_cast<std::int64_t>(row) * stride;
    for (std::int64_t i = 0; i < V; ++i) work.push_back(static_cast<float>(logits[static_cast<std::size_t>(at + i)]));
    out.losses.push_back(static_cast<float>(kernels::detail::cross_entropy_row(
        work.data(), out.gradient.data() + at, V, targets[row], scale, kernels::detect_simd_level())));
  }
  return out;
}

}  // namespace

TEMPLATE_TEST_CASE("cuda cross-entropy: losses and gradients are the CPU's, whatever the group", "[cuda][fast]", float,
                   bf16) {
  const double near = sizeof(TestType) == 4 ? 3e-6 : 0x1p-8;
  for (const std::int64_t V : {1, 3, 50, 257}) {
    for (const std::int64_t stride : {V, V + 7, (V + 3) / 4 * 4 + 4}) {
      const auto logits = numbers<TestType>(6 * stride, 9, 4.0F);
      const std::vector<std::int32_t> targets{
          0, static_cast<std::int32_t>(V - 1), -1, static_cast<std::int32_t>(V / 2), 0, -100};
      const outcome expected = of_cpu(logits, targets, V, stride, 0.125F);
      for (const int threads : {1, 3, 8}) {
        const outcome got = of_body(logits, targets, V, stride, 0.125F, threads);
        CHECK(distance(got.losses, expected.losses) < 3e-6);
        CHECK(distance(got.gradient, expected.gradient) < near);
        for (std::int64_t row = 0; row < 6; ++row) {
          for (std::int64_t i = V; i < stride; ++i) CHECK(got.gradient[static_cast<std::size_t>(row * stride + i)] == 0.0F);
        }
      }
    }
  }
}

TEST_CASE("cuda cross-entropy: a loss in closed form, and huge logits", "[cuda][fast]") {
  for (const int threads : {1, 4}) {
    const outcome even = of_body<float>(std::vector<float>(1000, 3.0F), {7}, 1000, 1000, 1.0F, threads);
    CHECK(distance(even.losses, {std::log(1000.0F)}) < 1e-6);
    CHECK(distance(even.gradient, [] {
            std::vector<float> g(1000, 0.001F);
            g[7] = -0.999F;
            return g;
          }()) < 1e-6);
    const outcome huge = of_body<float>({-3e38F, 3e38F, 0.0F, -infinity}, {1}, 4, 4, 1.0F, threads);
    CHECK(huge.losses[0] == 0.0F);
    CHECK(distance(huge.gradient, {0.0F, 0.0F, 0.0F, 0.0F}) < 1e-30);
  }
}

TEST_CASE("cuda cross-entropy: NaN among the logits is seen in the loss", "[cuda][fast]") {
  std::vector<float> logits = numbers(64, 3);
  logits[41] = std::numeric_limits<float>::quiet_NaN();
  for (const int threads : {1, 4}) CHECK(std::isnan(of_body<float>(logits, {2}, 64, 64, 1.0F, threads).losses[0]));
}
