// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_PATHS_BY_HAND_HPP
#define CAUSEWAY_TESTS_SUPPORT_PATHS_BY_HAND_HPP

// Two paths through a model of modules: whole models on them, whose modules are exchanged by hand.

#include <causeway/presets/modular.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/named_paths.hpp"

namespace support {

/// Two paths: the first level of two blocks has a version for each, the second is of both.
struct two_paths : causeway::presets::dipaco_options {
  two_paths() { paths = causeway::axis::every_path({2, 1}, 2), blocks_per_level = 2, outer_momentum = 0.5F; }
};
struct weighted_paths : two_paths {
  weighted_paths() { weights = {1, 3}; }
};
/// Levels and stages that end at different blocks, and paths that share nothing but what is outside of blocks.
struct paths_apart : causeway::presets::dipaco_options {
  paths_apart() { paths = {{0, 0, 0}, {0, 1, 1}}, blocks_per_level = 3, outer_momentum = 0.5F; }
};

/// `Count` whole models, the first half of which, or one more, is on the first path of `policy`. Those of a path count
/// alike, together as much as it does.
template <std::size_t Count>
class paths_by_hand {
 public:
  paths_by_hand(causeway::presets::dipaco_options policy, std::int64_t layers)
      : policy_{std::move(policy)}, layers_{layers} {}

  /// After so many steps of each; `shared` becomes the first path.
  template <class Models>
  void exchange(std::uint64_t steps, causeway::parameter_store& shared, const Models& models) {
    const auto begin = shared.values();
    if (steps == 1) of_path_.fill({{begin.begin(), begin.end()}, std::vector<float>(begin.size())});
    if (steps % policy_.local_steps != 0) return;
    for (const causeway::parameter_segment& s : shared.segments()) {
      const std::size_t level =
          s.block < 0 || s.block >= layers_ ? 0 : 1 + static_cast<std::size_t>(s.block) / policy_.blocks_per_level;
      const bool together = policy_.paths[0][level] == policy_.paths[1][level];
      for (auto i = static_cast<std::size_t>(s.offset); i < static_cast<std::size_t>(s.offset + s.size()); ++i)
        move(i, together, models);
    }
    std::copy(of_path_[1].values.begin(), of_path_[1].values.end(), begin.begin());
    detail::collect(shared, other_);
    std::copy(of_path_[0].values.begin(), of_path_[0].values.end(), begin.begin());
  }

  /// `first`: the shared parameters, by name. With those of the second path.
  [[nodiscard]] std::map<std::string, std::vector<float>> all(std::map<std::string, std::vector<float>> first) const {
    for (const auto& [name, values] : other_) first[name_on_path(name, 1)] = values;
    return first;
  }

  /// The shared parameters of a path.
  [[nodiscard]] const std::vector<float>& values(std::uint32_t path) const { return of_path_[path].values; }

 private:
  struct shared_module {
    std::vector<float> values, velocity;
  };
  [[nodiscard]] static std::size_t path_of(std::size_t model) { return model * 2 / Count; }
  [[nodiscard]] static double models_on(std::size_t path) {
    return static_cast<double>(path == 0 ? (Count + 1) / 2 : Count / 2);
  }

  template <class Models>
  void move(std::size_t i, bool together, const Models& models) {
    std::array<double, 2> moved{}, count{};
    for (std::size_t m = 0; m < Count; ++m) {
      const double weight = (policy_.weights.empty() ? 1 : policy_.weights[path_of(m)]) / models_on(path_of(m));
      const std::size_t module = together ? 0 : path_of(m);
      moved[module] += weight * (double{of_path_[module].values[i]} - double{models[m][i]});
      count[module] += weight;
    }
    for (std::size_t v = 0; v < 2; ++v) {
      auto& it = of_path_[v];
      const std::size_t module = together ? 0 : v;
      const double mean = moved[module] / count[module] * (together ? std::sqrt(2.0) : 1.0);
      it.velocity[i] = static_cast<float>(policy_.outer_momentum * it.velocity[i] + mean);
      it.values[i] -= static_cast<float>(policy_.outer_learning_rate * (mean + policy_.outer_momentum * it.velocity[i]));
    }
    for (std::size_t m = 0; m < Count; ++m) models[m][i] = of_path_[path_of(m)].values[i];
  }

  causeway::presets::dipaco_options policy_;
  std::int64_t layers_;
  std::array<shared_module, 2> of_path_;
  std::map<std::string, std::vector<float>> other_;
};

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_PATHS_BY_HAND_HPP
