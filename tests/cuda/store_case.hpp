// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_CUDA_STORE_CASE_HPP
#define CAUSEWAY_TESTS_CUDA_STORE_CASE_HPP

// Parameters of every kind, wherever they lie, for the device's optimizers against the processor's.

#include <causeway/core/rng.hpp>
#include <causeway/tensor/buffer.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <cstdint>

namespace causeway_test {

inline causeway::parameter_store store_of(const causeway::memory_source& source = {}) {
  using causeway::parameter_kind;
  causeway::parameter_store s;
  s.add("table", parameter_kind::embedding, 7, 5);
  s.add("tall", parameter_kind::matrix, 24, 6);
  s.add("bias", parameter_kind::vector, 1, 9);
  s.add("wide", parameter_kind::matrix, 5, 16);
  s.allocate(source);
  causeway::rng draw{1};
  for (float& v : s.values()) v = 0.1F * draw.normal();
  return s;
}

inline void set_gradients(causeway::parameter_store& s, std::uint64_t step) {
  causeway::rng draw{10 + step};
  for (float& g : s.gradients()) g = 0.1F * draw.normal();
}

inline bool equal(causeway::parameter_store& a, causeway::parameter_store& b) {
  return std::equal(a.values().begin(), a.values().end(), b.values().begin(), b.values().end());
}

}  // namespace causeway_test

#endif  // CAUSEWAY_TESTS_CUDA_STORE_CASE_HPP
