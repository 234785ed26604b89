// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/finite.hpp>

#include "support/catch.hpp"
#include "support/kernel_cases.hpp"

#include <limits>
#include <vector>

using namespace causeway;
using namespace causeway::kernels;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Looked at alone, and with conversion: what is finite then stands in `to`, and nothing behind it.
template <class T>
void check_values(simd_level level, const std::vector<T>& x, bool good) {
  const auto count = static_cast<std::int64_t>(x.size());
  const T* const from = x.data();
  CHECK(kernels::detail::dispatch<kernels::detail::finite_kernel>(level, from, count) == good);
  std::vector<float> to(x.size() + 1, -7.0F);
  CHECK(kernels::detail::dispatch<kernels::detail::finite_kernel>(level, from, to.data(), count) == good);
  std::size_t wrong = to.back() == -7.0F ? 0U : 1U;
  for (std::size_t i = 0; good && i < x.size(); ++i) wrong += to[i] == static_cast<float>(x[i]) ? 0U : 1U;
  CHECK(wrong == 0);
}

template <class T>
void check_everywhere() {
  for (const auto level : test::levels()) {
    for (const std::size_t count : {1U, 15U, 16U, 17U, 40U}) {
      for (std::size_t at = 0; at < count; ++at) {
        for (const float value : {infinity, -std::numeric_limits<float>::quiet_NaN(), 6e4F}) {
          std::vector<T> x(count, T{-1.5F});
          x[at] = T{value};
          check_values(level, x, value == 6e4F);
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("finite: what is not is seen wherever it stands", "[kernels][fast]") {
  check_everywhere<float>();
  check_everywhere<bf16>();
  check_everywhere<f16>();
}

TEST_CASE("finite: threads look at all of it, whoever has the culprit", "[kernels][fast]") {
  thread_pool three{3};
  std::vector<float> x(40001, 0.5F), to(x.size());
  const auto count = static_cast<std::int64_t>(x.size());
  const float* const from = x.data();
  CHECK(kernels::detail::look_for_finite(three, detect_simd_level(), count, from, to.data()));
  CHECK(to == x);
  for (const std::size_t at : {std::size_t{0}, std::size_t{20000}, x.size() - 1}) {
    x[at] = -infinity;
    CHECK_FALSE(kernels::detail::look_for_finite(three, detect_simd_level(), count, from));
    x[at] = 0.5F;
  }
  CHECK(kernels::detail::look_for_finite(three, detect_simd_level(), std::int64_t{0}, from));
}
