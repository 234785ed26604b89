// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_HUB_BY_HAND_HPP
#define CAUSEWAY_TESTS_SUPPORT_HUB_BY_HAND_HPP

// Delayed Nesterov at a hub, by hand.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace support {

/// What a hub does with whole models, by the formula of Liu et al. (algorithm 3), with N = 2. `rate`: of N pushes.
class hub_by_hand {
 public:
  explicit hub_by_hand(float rate = 0.7F, float decay = 0.9F) : rate_{rate}, decay_{decay} {}
  void push(std::span<float> shared, std::vector<float>& pulled, std::span<float> model) {
    take(shared, pulled, model);
    pull(shared, pulled, model);
  }
  void take(std::span<float> shared, std::span<const float> pulled, std::span<const float> model) {
    momentum_.resize(shared.size());
    sum_.resize(shared.size());
    ++pushes_;
    for (std::size_t i = 0; i < shared.size(); ++i) {
      const float delta = pulled[i] - model[i];
      sum_[i] += delta;
      shared[i] -= rate_ * delta / 2;
      if (pushes_ % 2 != 0) continue;
      momentum_[i] = decay_ * momentum_[i] + sum_[i] / 2;
      sum_[i] = 0;
      shared[i] -= rate_ * decay_ * momentum_[i];
    }
  }
  static void pull(std::span<const float> shared, std::vector<float>& pulled, std::span<float> model) {
    pulled.assign(shared.begin(), shared.end());
    std::copy(shared.begin(), shared.end(), model.begin());
  }

 private:
  float rate_, decay_;
  std::vector<float> momentum_, sum_;
  std::uint32_t pushes_ = 0;
};

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_HUB_BY_HAND_HPP
