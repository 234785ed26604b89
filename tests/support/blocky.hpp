// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_BLOCKY_HPP
#define CAUSEWAY_TESTS_SUPPORT_BLOCKY_HPP

// The quadratic of support/quadratic.hpp with the parameters of a little transformer: a table before the blocks, a matrix
// and a vector in each block, a vector after them. For policies that cut parameters, or look at matrices.

#include <causeway/tensor/parameters.hpp>

#include <cstdint>
#include <string>

#include "support/quadratic.hpp"

namespace support {

class blocky : public test_model {
 public:
  using self = blocky;

  explicit blocky(int blocks = 4, std::uint64_t seed = 1)
      : test_model{parameters_of(blocks, seed),
                   [](causeway::parameter_store& store, tokens inputs, float scale, std::uint64_t) {
                     return pull(store, inputs, scale);
                   },
                   [](causeway::parameter_store& store, tokens inputs) { return distance(store, inputs); }} {}

 private:
  static causeway::parameter_store parameters_of(int blocks, std::uint64_t seed) {
    causeway::parameter_store store;
    store.add("table", causeway::parameter_kind::embedding, 6, 5);
    for (int b = 0; b < blocks; ++b) {
      store.add("block" + std::to_string(b) + ".matrix", causeway::parameter_kind::matrix, 8, 4, b);
      store.add("block" + std::to_string(b) + ".bias", causeway::parameter_kind::vector, 1, 5, b);
    }
    store.add("norm", causeway::parameter_kind::vector, 1, 7, blocks);
    store.allocate();
    causeway::rng random{seed};
    for_each(store, [&](std::int64_t i) {
      store.values()[static_cast<std::size_t>(i)] = static_cast<float>(random.below(64)) / 16.0F;
    });
    return store;
  }

  static double pull(causeway::parameter_store& store, tokens inputs, float scale) {
    double loss = 0;
    for (const std::int32_t t : inputs) {
      const float* const middle = quadratic::centres(t, static_cast<std::int64_t>(store.values().size()));
      for_each(store, [&](std::int64_t i) {
        const auto at = static_cast<std::size_t>(i);
        const float pull = store.values()[at] - middle[i % quadratic::period];
        store.gradients()[at] += scale * pull;
        loss += 0.5 * static_cast<double>(pull) * static_cast<double>(pull);
      });
    }
    return loss;
  }

  static double distance(causeway::parameter_store& store, tokens inputs) {
    double loss = 0;
    for (const std::int32_t t : inputs) {
      const float* const middle = quadratic::centres(t, static_cast<std::int64_t>(store.values().size()));
      for_each(store, [&](std::int64_t i) {
        const double pull =
            static_cast<double>(store.values()[static_cast<std::size_t>(i)] - middle[i % quadratic::period]);
        loss += 0.5 * pull * pull;
      });
    }
    return loss;
  }

  template <class F>
  static void for_each(const causeway::parameter_store& store, F&& f) {
    for (const auto& s : store.segments()) {
      for (std::int64_t i = s.offset; i < s.offset + s.size(); ++i) f(i);
    }
  }
};

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_BLOCKY_HPP
