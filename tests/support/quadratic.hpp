// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_QUADRATIC_HPP
#define CAUSEWAY_TESTS_SUPPORT_QUADRATIC_HPP

// A model whose training can be worked out on paper: every token t pulls the parameters toward a centre c(t), so the loss
// of a token is ½‖θ − c(t)‖² and the gradient θ − c(t). Centres lie on a coarse dyadic grid, so small cases are exact in
// f32.

#include <causeway/core/rng.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "support/test_model.hpp"

namespace support {

class quadratic : public test_model {
 public:
  using self = quadratic;

  explicit quadratic(std::int64_t size = 37, std::uint64_t seed = 1)
      : test_model{parameters_of(size, seed),
                   [size](causeway::parameter_store& store, tokens inputs, float scale, std::uint64_t) {
                     return pull(store, inputs, scale, size);
                   },
                   [size](causeway::parameter_store& store, tokens inputs) { return distance(store, inputs, size); }} {}

  static constexpr std::int64_t period = 4096;  ///< after so many, a centre's components come again

  /// Component i of the centre of token t: a multiple of 1/8 in [-4, 4).
  static float centre(std::int32_t t, std::int64_t i) {
    const auto place = static_cast<std::uint64_t>(i % period);
    return static_cast<float>(causeway::mix(static_cast<std::uint64_t>(t), place) % 64) / 8.0F - 4.0F;
  }

  /// The first `size` components of a token's centre, which repeat after `period`, worked out once: a run asks for each
  /// many times.
  static const float* centres(std::int32_t t, std::int64_t size) {
    thread_local std::map<std::int32_t, std::vector<float>> made;
    auto& here = made[t];
    for (auto i = static_cast<std::int64_t>(here.size()); i < std::min(size, period); ++i) here.push_back(centre(t, i));
    return here.data();
  }

 private:
  static causeway::parameter_store parameters_of(std::int64_t size, std::uint64_t seed) {
    causeway::parameter_store store;
    store.add("theta", causeway::parameter_kind::vector, 1, size);
    store.allocate();
    causeway::rng random{seed};
    float* const values = store.value(0);
    for (std::int64_t i = 0; i < size; ++i) {
      values[i] = i < period ? static_cast<float>(random.below(64)) / 16.0F : values[i - period];
    }
    return store;
  }

  static double pull(causeway::parameter_store& store, tokens inputs, float scale, std::int64_t size) {
    double loss = 0;
    for (const std::int32_t t : inputs) {
      const float* const middle = centres(t, size);
      for (std::int64_t i = 0; i < size; i += period) {
        loss = pull_part(store.value(0) + i, middle, std::min(period, size - i), scale, store.gradient(0) + i, loss);
      }
    }
    return loss;
  }

  static double distance(causeway::parameter_store& store, tokens inputs, std::int64_t size) {
    double loss = 0;
    for (const std::int32_t t : inputs) {
      const float* const middle = centres(t, size);
      for (std::int64_t i = 0; i < size; i += period) {
        loss = distance_part(store.value(0) + i, middle, std::min(period, size - i), loss);
      }
    }
    return loss;
  }

  // Where runs of many peers spend their time. -Og is ten times as slow here.
#if defined(__clang__)
#define CAUSEWAY_TEST_QUICK
#else
#define CAUSEWAY_TEST_QUICK __attribute__((optimize("O3")))
#endif
  CAUSEWAY_TEST_QUICK static double pull_part(const float* values, const float* middle, std::int64_t size, float scale,
                                              float* gradients, double loss) {
    for (std::int64_t i = 0; i < size; ++i) gradients[i] += scale * (values[i] - middle[i]);
    for (std::int64_t i = 0; i < size; ++i) {
      const float pull = values[i] - middle[i];
      loss += 0.5 * static_cast<double>(pull) * static_cast<double>(pull);
    }
    return loss;
  }

  CAUSEWAY_TEST_QUICK static double distance_part(const float* values, const float* middle, std::int64_t size,
                                                  double loss) {
    for (std::int64_t i = 0; i < size; ++i) {
      const double pull = static_cast<double>(values[i]) - static_cast<double>(middle[i]);
      loss += 0.5 * pull * pull;
    }
    return loss;
  }
#undef CAUSEWAY_TEST_QUICK
};

/// The tokens that peer p trains on in step s: `count` of them, different for every (seed, peer, step).
inline std::vector<std::int32_t> tokens_of(std::uint32_t peer, std::uint64_t step, std::size_t count = 4) {
  std::vector<std::int32_t> tokens(count);
  for (std::size_t i = 0; i < count; ++i)
    tokens[i] = static_cast<std::int32_t>(causeway::mix(peer + 1, step + 1, i) % 1000);
  return tokens;
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_QUADRATIC_HPP
