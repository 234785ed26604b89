// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_BLOCKY_HPP
#define CAUSEWAY_TESTS_SUPPORT_BLOCKY_HPP

// The quadratic of support/quadratic.hpp with the parameters of a little transformer: a table before the blocks, a matrix
// and a vector in each block, a vector after them. For policies that cut parameters, or look at matrices.

#include <causeway/tensor/parameters.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "support/quadratic.hpp"

namespace support {

class blocky {
 public:
  explicit blocky(int blocks = 4, std::uint64_t seed = 1) : backend_{std::make_unique<quadratic::device>()} {
    store_.add("table", causeway::parameter_kind::embedding, 6, 5);
    for (int b = 0; b < blocks; ++b) {
      store_.add("block" + std::to_string(b) + ".matrix", causeway::parameter_kind::matrix, 8, 4, b);
      store_.add("block" + std::to_string(b) + ".bias", causeway::parameter_kind::vector, 1, 5, b);
    }
    store_.add("norm", causeway::parameter_kind::vector, 1, 7, blocks);
    store_.allocate();
    causeway::rng random{seed};
    for_each([&](std::int64_t i) {
      store_.values()[static_cast<std::size_t>(i)] = static_cast<float>(random.below(64)) / 16.0F;
    });
  }

  causeway::parameter_store& parameters() { return store_; }
  std::uint64_t config_hash() const { return store_.layout_hash(); }
  quadratic::device& backend() { return *backend_; }

  causeway::result<double> forward_backward(std::span<const std::int32_t> inputs, std::span<const std::int32_t>,
                                            std::int64_t, float scale, std::uint64_t) {
    double loss = 0;
    for (const std::int32_t t : inputs) {
      for_each([&](std::int64_t i) {
        const auto at = static_cast<std::size_t>(i);
        const float pull = store_.values()[at] - quadratic::centre(t, i);
        store_.gradients()[at] += scale * pull;
        loss += 0.5 * static_cast<double>(pull) * static_cast<double>(pull);
      });
    }
    return loss;
  }

  causeway::result<double> evaluate(std::span<const std::int32_t> inputs, std::span<const std::int32_t>, std::int64_t) {
    double loss = 0;
    for (const std::int32_t t : inputs) {
      for_each([&](std::int64_t i) {
        const double pull = static_cast<double>(store_.values()[static_cast<std::size_t>(i)] - quadratic::centre(t, i));
        loss += 0.5 * pull * pull;
      });
    }
    return loss;
  }

 private:
  template <class F>
  void for_each(F&& f) {
    for (const auto& s : store_.segments()) {
      for (std::int64_t i = s.offset; i < s.offset + s.size(); ++i) f(i);
    }
  }

  causeway::parameter_store store_;
  std::unique_ptr<quadratic::device> backend_;
};
static_assert(causeway::Model<blocky>);

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_BLOCKY_HPP
