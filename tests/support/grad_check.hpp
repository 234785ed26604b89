// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_GRAD_CHECK_HPP
#define CAUSEWAY_TESTS_SUPPORT_GRAD_CHECK_HPP

// Gradients against finite differences. One direction at a time, all elements moved at once: the derivative along a random
// direction is wrong as soon as any element of the gradient is. Central differences at two step sizes, extrapolated
// (Richardson), with the loss and all sums in double, leave about four correct digits of an f32 computation.

#include <causeway/config/config.hpp>
#include <causeway/core/rng.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace support {

struct grad_check_options {
  float step = 0.03F;  ///< how far each element is moved, up and down
  int directions = 4;  ///< along the gradient's signs, then random ones
  std::uint64_t seed = 1;
};

namespace detail {

/// (f(x + s·v) − f(x − s·v)) / 2s, and the derivative that `gradient` predicts for the step really made in f32.
struct difference {
  double measured = 0.0;
  double predicted = 0.0;
};

template <class Loss>
difference central_difference(std::span<float> values, std::span<const float> gradient, std::span<const float> direction,
                              float step, Loss& loss) {
  const std::vector<float> saved(values.begin(), values.end());
  const auto move = [&](float by) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = saved[i] + by * direction[i];
    return static_cast<double>(loss());
  };
  difference d;
  d.measured = (move(step) - move(-step)) / (2.0 * static_cast<double>(step));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double up = static_cast<double>(saved[i] + step * direction[i]);
    const double down = static_cast<double>(saved[i] - step * direction[i]);
    d.predicted += static_cast<double>(gradient[i]) * (up - down) / (2.0 * static_cast<double>(step));
  }
  std::copy(saved.begin(), saved.end(), values.begin());
  return d;
}

}  // namespace detail

/// The worst error of `gradient`, relative to its length, as the gradient of `loss()` with respect to `values`. `loss`
/// computes from the present contents of `values`, which are moved and put back. A correct f32 rule stays below 1e-3;
/// infinity when something is not finite. Cost: 4 · directions evaluations.
template <std::invocable Loss>
[[nodiscard]] double grad_check(std::span<float> values, std::span<const float> gradient, Loss&& loss,
                                grad_check_options options = {}) {
  CAUSEWAY_EXPECT(values.size() == gradient.size());
  double norm = 0.0;
  for (const float g : gradient) norm += static_cast<double>(g) * static_cast<double>(g);
  norm = std::sqrt(norm);
  causeway::rng random{options.seed};
  std::vector<float> direction(values.size());
  double worst = 0.0;
  for (int n = 0; n < options.directions; ++n) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool up = n == 0 ? gradient[i] >= 0.0F : random.uniform() < 0.5F;
      direction[i] = up ? 1.0F : -1.0F;
    }
    const auto wide = detail::central_difference(values, gradient, direction, options.step, loss);
    const auto narrow = detail::central_difference(values, gradient, direction, options.step / 2, loss);
    const double measured = (4.0 * narrow.measured - wide.measured) / 3.0;
    const double predicted = (4.0 * narrow.predicted - wide.predicted) / 3.0;
    const double error = std::abs(measured - predicted) / std::max({norm, std::abs(measured), 1e-30});
    worst = std::isfinite(error) ? std::max(worst, error) : HUGE_VAL;
  }
  return worst;
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_GRAD_CHECK_HPP
