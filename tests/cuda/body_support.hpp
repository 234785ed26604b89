// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_CUDA_BODY_SUPPORT_HPP
#define CAUSEWAY_TESTS_CUDA_BODY_SUPPORT_HPP

// Numbers for the tests of bodies, and how two rows of numbers compare.

#include <causeway/core/rng.hpp>
#include <causeway/tensor/dtype.hpp>

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace causeway_test {

/// Normal values times `spread`, and at the front the kinds that go wrong first.
template <class T = float, std::integral Count>
std::vector<T> numbers(Count how_many, std::uint64_t seed, float spread = 1.0F) {
  const auto count = static_cast<std::size_t>(how_many);
  causeway::rng draw{seed};
  std::vector<T> values;
  for (const float v : {0.0F, -0.0F, 30.0F, -30.0F, 1e-30F, -1e-40F}) {
    if (values.size() < count) values.push_back(T(v * spread));
  }
  while (values.size() < count) values.push_back(T(draw.normal() * spread));
  return values;
}

/// How many elements differ in any bit.
template <class T>
std::size_t differing(const std::vector<T>& a, const std::vector<T>& b) {
  std::size_t count = a.size() == b.size() ? 0 : a.size() + b.size();
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) count += std::memcmp(&a[i], &b[i], sizeof(T)) == 0 ? 0U : 1U;
  return count;
}

/// The largest |a - b| / (floor + |b|).
template <class T>
double distance(const std::vector<T>& a, const std::vector<T>& b, double floor = 1.0) {
  double worst = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const auto x = static_cast<double>(static_cast<float>(a[i])), y = static_cast<double>(static_cast<float>(b[i]));
    const double off = std::fabs(x - y) / (floor + std::fabs(y));
    worst = off <= worst ? worst : off;  // NaN is the worst
  }
  return worst;
}

}  // namespace causeway_test

#endif  // CAUSEWAY_TESTS_CUDA_BODY_SUPPORT_HPP
