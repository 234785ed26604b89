// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/bodies/pack.hpp>

#include "cuda/body_support.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using namespace causeway::cuda;
using causeway::bf16;

/// Counts how often each element is touched, and by packs of what width.
struct counting_body {
  int* touched;
  int* in_packs;
  bool packs;

  [[nodiscard]] bool aligned() const { return packs; }
  template <int N>
  void run(std::int64_t i) const {
    for (int k = 0; k < N; ++k) ++touched[i + k];
    if constexpr (N > 1) {
      CHECK(i % N == 0);
      *in_packs += N;
    }
  }
};
static_assert(PackBody<counting_body>);

}  // namespace

TEST_CASE("cuda pack: every element is done once, in packs where that is allowed", "[cuda][fast]") {
  for (const std::int64_t count : {0, 1, 3, 4, 5, 1027}) {
    for (const bool packs : {false, true}) {
      std::vector<int> touched(static_cast<std::size_t>(count));
      int in_packs = 0;
      run_here(counting_body{touched.data(), &in_packs, packs}, count);
      CHECK(touched == std::vector<int>(static_cast<std::size_t>(count), 1));
      CHECK(in_packs == (packs ? count / pack_width * pack_width : 0));
    }
  }
}

TEST_CASE("cuda pack: a pack of halves holds what the halves hold", "[cuda][fast]") {
  alignas(16) bf16 stored[4] = {bf16{1.0F}, bf16{-2.5F}, bf16{1e-3F}, bf16{3e38F}};
  float v[4];
  detail::load(v, stored);
  for (int k = 0; k < 4; ++k) CHECK(v[k] == static_cast<float>(stored[k]));
  v[2] = 1.0F + 0x1p-8F;  // a tie, which goes to the even one
  detail::store(stored, v);
  CHECK(stored[2] == bf16{1.0F});
  CHECK(stored[3] == bf16{3e38F});
}

TEST_CASE("cuda pack: pointers between packs are found out", "[cuda][fast]") {
  alignas(16) float values[8] = {};
  alignas(8) bf16 halves[8] = {};
  CHECK(detail::on_packs(values, values + 4));
  CHECK_FALSE(detail::on_packs(values, values + 1));
  CHECK(detail::on_packs(halves, halves + 4));
  CHECK_FALSE(detail::on_packs(halves + 2));
  CHECK(detail::on_packs(static_cast<const bf16*>(nullptr)));
}

TEST_CASE("cuda pack: the exponential is right to 1e-7 and saturates", "[cuda][fast]") {
  double worst = 0;
  for (float x = -86.9F; x < 86.9F; x += 0.0137F) {
    const double truth = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::fabs(static_cast<double>(detail::exponential(x)) - truth) / truth);
  }
  CHECK(worst < 1.3e-7);
  CHECK(detail::exponential(200.0F) == detail::exponential(87.0F));
  CHECK(detail::exponential(-std::numeric_limits<float>::infinity()) > 0.0F);
  CHECK(std::isnan(detail::exponential(std::numeric_limits<float>::quiet_NaN())));
  CHECK(detail::sigmoid_of_minus(0.0F) == 0.5F);
}

TEST_CASE("cuda pack: a product is rounded before it is added to", "[cuda][fast]") {
  const float a = 1.0F + 0x1p-12F;  // a² = 1 + 2^-11 + 2^-24, and the last term is lost in rounding
  CHECK(detail::times(a, a) - (1.0F + 0x1p-11F) == 0.0F);
}
