// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_COMPRESS_HEAVY_TAILS_HPP
#define CAUSEWAY_TESTS_COMPRESS_HEAVY_TAILS_HPP

// Values as gradients have them, for codecs that must contract whatever the distribution.

#include <causeway/core/rng.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace heavy_tails {

inline std::vector<float> filled(std::size_t n, std::uint64_t seed, auto&& next) {
  causeway::rng draw{seed};
  std::vector<float> x(n);
  for (float& v : x) v = next(draw);
  return x;
}

inline std::vector<float> normal(std::size_t n, std::uint64_t seed) {
  return filled(n, seed, [](causeway::rng& draw) { return draw.normal(); });
}
inline std::vector<float> laplace(std::size_t n, std::uint64_t seed) {
  return filled(n, seed, [](causeway::rng& draw) {
    const float u = draw.uniform() - 0.5F;
    return std::copysign(std::log(1.0F - 2.0F * std::min(std::abs(u), 0.4999999F)), u);
  });
}
/// Student's t with three degrees of freedom.
inline std::vector<float> student(std::size_t n, std::uint64_t seed) {
  return filled(n, seed, [](causeway::rng& draw) {
    float squares = 0;
    for (int i = 0; i < 3; ++i) {
      const float z = draw.normal();
      squares += z * z;
    }
    return draw.normal() / std::sqrt(squares / 3.0F);
  });
}
/// Normal values of five scales from 1 to 0.01, one after another.
inline std::vector<float> mixture(std::size_t n, std::uint64_t seed) {
  auto x = normal(n, seed);
  for (std::size_t i = 0; i < n; ++i) x[i] *= std::pow(10.0F, -0.5F * static_cast<float>(i * 5 / n));
  return x;
}

using distribution = std::function<std::vector<float>(std::size_t, std::uint64_t)>;
inline std::vector<std::pair<std::string, distribution>> all() {
  return {{"normal", normal}, {"laplace", laplace}, {"student", student}, {"mixture", mixture}};
}

/// |x - decoded|² / |x|².
inline double lost(const std::vector<float>& x, const std::vector<float>& decoded) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto value = static_cast<double>(x[i]);
    const double off = value - static_cast<double>(decoded[i]);
    error += off * off;
    size += value * value;
  }
  return size > 0 ? error / size : 0;
}

/// One large value, and all others alike: what a block's scale is worst at.
inline std::vector<float> one_among(std::size_t n, float large, float others) {
  std::vector<float> x(n, others);
  x[n / 3] = -large;
  return x;
}

/// Ten draws of n values from each distribution, made once: most tests ask for the same.
inline const std::vector<std::vector<float>>& draws(std::size_t n) {
  static std::map<std::size_t, std::vector<std::vector<float>>> made;
  auto& here = made[n];
  if (!here.empty()) return here;
  for (const auto& [name, draw] : all()) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) here.push_back(draw(n, seed));
  }
  return here;
}

/// The largest part that round_trip(x) loses, of all distributions and these sizes, ten draws of each.
inline double worst_lost(auto&& round_trip, std::initializer_list<std::size_t> sizes) {
  double worst = 0;
  for (const std::size_t n : sizes) {
    for (const auto& x : draws(n)) {
      const double l = lost(x, round_trip(x));
      worst = l <= worst ? worst : l;  // a NaN stays
    }
  }
  return worst;
}

}  // namespace heavy_tails

#endif  // CAUSEWAY_TESTS_COMPRESS_HEAVY_TAILS_HPP
