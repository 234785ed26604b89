// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_FRAGMENTS_BY_HAND_HPP
#define CAUSEWAY_TESTS_SUPPORT_FRAGMENTS_BY_HAND_HPP

// What two whole models, with the halves of each batch, are to come to where they exchange what they moved in fragments.

#include <causeway/axis/fragments.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace support {

/// Of one fragment of both.
struct fragment_by_hand {
  std::vector<std::size_t> values{};  // where they lie
  std::uint64_t due = 0;
  bool made = false;
  std::array<std::vector<float>, 2> moved{};
  std::vector<float> velocity{};
};

/// Both exchange what they moved, fragment by fragment, with an outer step of Nesterov.
struct fragments_by_hand {
  std::uint64_t period = 0, late = 0;
  float local_share = 0, rate = 0, momentum = 0;
  bool by_norm = false;  // with EDiT's weights
  bool replays = false;  // what was trained meanwhile stays as it was
  std::vector<fragment_by_hand> fragments{};
  std::span<float> shared{};

  /// `fragment_of`: of a block's number, or of a negative one outside of blocks.
  void cut(std::span<const causeway::parameter_segment> of_model, const std::function<std::size_t(int)>& fragment_of) {
    for (const causeway::parameter_segment& s : of_model) {
      auto& lie = fragments.at(fragment_of(s.block)).values;
      for (std::int64_t i = 0; i < s.size(); ++i) lie.push_back(static_cast<std::size_t>(s.offset + i));
    }
  }

  /// The same, of equal size.
  void cut_evenly(const causeway::parameter_store& model) {
    const auto count = static_cast<std::uint32_t>(fragments.size());
    const auto length = static_cast<std::size_t>(model.length());
    const auto cuts = causeway::axis::balanced{count}.cut(model.segments(), length).value();
    for (std::size_t f = 0; f < fragments.size(); ++f) {
      for (const causeway::index_range& r : cuts[f].ranges) {
        for (std::int64_t i = r.begin; i < r.end; ++i) fragments[f].values.push_back(static_cast<std::size_t>(i));
      }
    }
  }

  void make(fragment_by_hand& f, const std::array<std::span<float>, 2>& models) {
    for (std::size_t m = 0; m < 2; ++m) {
      f.moved[m].clear();
      for (const std::size_t i : f.values) f.moved[m].push_back(shared[i] - models[m][i]);
    }
    f.made = true;
  }

  [[nodiscard]] std::vector<float> mean_of(const fragment_by_hand& f) const {
    std::array<double, 2> weight{0.5, 0.5};
    const auto norm = [](const std::vector<float>& values) {
      double sum = 0;
      for (const float v : values) sum += double{v} * v;
      return std::sqrt(sum);
    };
    if (by_norm) {
      const double first = std::exp(-norm(f.moved[0])), second = std::exp(-norm(f.moved[1]));
      weight = {first / (first + second), second / (first + second)};
    }
    std::vector<float> mean;
    for (std::size_t k = 0; k < f.values.size(); ++k)
      mean.push_back(static_cast<float>(weight[0] * f.moved[0][k] + weight[1] * f.moved[1][k]));
    const double clip = by_norm ? std::min(1.0, 10 / (norm(mean) + 1e-6)) : 1.0;
    for (float& v : mean) v *= static_cast<float>(clip);
    return mean;
  }

  void apply(fragment_by_hand& f, const std::array<std::span<float>, 2>& models) {
    const std::vector<float> mean = mean_of(f);
    f.velocity.resize(mean.size(), 0.0F);
    for (std::size_t k = 0; k < mean.size(); ++k) {
      f.velocity[k] = momentum * f.velocity[k] + mean[k];
      float& value = shared[f.values[k]];
      const float before = std::exchange(value, value - rate * (mean[k] + momentum * f.velocity[k]));
      for (std::size_t m = 0; m < 2; ++m) {
        float& own = models[m][f.values[k]];
        own = replays ? own + value - (before - f.moved[m][k]) : local_share * own + (1 - local_share) * value;
      }
    }
    f.made = false;
    f.due += period;
  }

  /// After step `s`.
  void exchange(std::uint64_t s, bool last, const std::array<std::span<float>, 2>& models) {
    for (fragment_by_hand& f : fragments) {
      if (!f.made && (s == f.due || last)) make(f, models);
      if (f.made && (s == f.due + late || last)) apply(f, models);
    }
  }
};

/// Three fragments that take turns.
inline fragments_by_hand in_turn_by_hand() {
  fragments_by_hand with{.period = 6, .rate = 0.4F, .momentum = 0.9F};
  for (const std::uint64_t first : {2U, 4U, 6U}) with.fragments.push_back({.due = first});
  return with;
}
/// With the numbers of `streaming`, which has every second block in a fragment.
inline fragments_by_hand streaming_by_hand() {
  fragments_by_hand with = in_turn_by_hand();
  with.late = 3, with.local_share = 0.5F;
  return with;
}
inline std::size_t strided_fragment_of(int block) {
  return block < 0 || block > 3 ? 0U : 1U + static_cast<unsigned>(block) % 2U;
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_FRAGMENTS_BY_HAND_HPP
