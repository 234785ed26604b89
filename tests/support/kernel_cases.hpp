// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_KERNEL_CASES_HPP
#define CAUSEWAY_TESTS_SUPPORT_KERNEL_CASES_HPP

// What tests of element-wise kernels share: seeded data in either activation type, every instruction set of the machine,
// and a comparison with a reference in f64.

#include <causeway/core/rng.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/tensor/dtype.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace test {

/// Uniform in [low, high).
inline std::vector<float> uniform(std::size_t count, std::uint64_t seed, float low = -1.0F, float high = 1.0F) {
  causeway::rng draw{seed};
  std::vector<float> values(count);
  for (auto& value : values) value = low + (high - low) * draw.uniform();
  return values;
}

/// Stored as T, which rounds.
template <class T>
std::vector<T> stored(const std::vector<float>& values) {
  std::vector<T> result(values.size());
  std::transform(values.begin(), values.end(), result.begin(), [](float v) { return static_cast<T>(v); });
  return result;
}

template <class T>
std::vector<double> as_double(const std::vector<T>& values) {
  std::vector<double> result(values.size());
  std::transform(values.begin(), values.end(), result.begin(),
                 [](const T& v) { return static_cast<double>(static_cast<float>(v)); });
  return result;
}

/// The largest |a - b| / (1 + |b|); infinite where the sizes differ or a value is NaN.
template <class T>
double worst_error(const std::vector<T>& actual, const std::vector<double>& expected) {
  const auto values = as_double(actual);
  if (values.size() != expected.size()) return INFINITY;
  double worst = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double error = std::abs(values[i] - expected[i]) / (1.0 + std::abs(expected[i]));
    if (std::isnan(error)) return INFINITY;
    worst = std::max(worst, error);
  }
  return worst;
}

/// What rounding to T costs, relative, plus `work` for the f32 arithmetic before it.
template <class T>
double rounding(double work) {
  return work + (sizeof(T) == 2 ? 0x1p-8 : 0.0);
}

/// The instruction sets this machine can run, the portable one first.
inline std::vector<causeway::kernels::simd_level> levels() {
  using causeway::kernels::simd_level;
  std::vector<simd_level> result{simd_level::portable};
  for (const auto level : {simd_level::avx2, simd_level::avx512}) {
    if (causeway::kernels::detect_simd_level() >= level) result.push_back(level);
  }
  return result;
}

/// d f / d x[i] for every i by central differences, of a scalar function of a vector in f64.
template <class F>
std::vector<double> finite_differences(F&& f, std::vector<double> x, double step = 1e-5) {
  std::vector<double> gradient(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double center = x[i];
    x[i] = center + step;
    const double above = f(x);
    x[i] = center - step;
    const double below = f(x);
    x[i] = center;
    gradient[i] = (above - below) / (2.0 * step);
  }
  return gradient;
}

}  // namespace test

#endif  // CAUSEWAY_TESTS_SUPPORT_KERNEL_CASES_HPP
