// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_COUNTING_HPP
#define CAUSEWAY_TESTS_SUPPORT_COUNTING_HPP

// A model whose parameters tell how often each sample counts in what training came to.

#include <causeway/tensor/parameters.hpp>

#include <cstddef>
#include <cstdint>

#include "support/test_model.hpp"

namespace support {

/// Sample t moves parameter t, by half of the rate, whatever the parameters: they tell how often each counts.
class counting : public test_model {
 public:
  using self = counting;

  explicit counting(int samples)
      : test_model{start(samples),
                   [](causeway::parameter_store& store, tokens inputs, float scale, std::uint64_t) {
                     const float part = scale * static_cast<float>(inputs.size()) / 2;  // a batch may have one only
                     for (const std::int32_t t : inputs) store.gradients()[static_cast<std::size_t>(t)] += part;
                     return 0.0;
                   },
                   [](causeway::parameter_store&, tokens) { return 0.0; }} {}

 private:
  static causeway::parameter_store start(int samples) {
    causeway::parameter_store store;
    store.add("counts", causeway::parameter_kind::vector, 1, samples, -1);
    store.allocate();
    return store;
  }
};

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_COUNTING_HPP
