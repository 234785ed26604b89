// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_NN_GOLDEN_HPP
#define CAUSEWAY_TESTS_NN_GOLDEN_HPP

// Reads what tests/golden/make_golden.py wrote, and compares a model with it.

#include <causeway/core/rng.hpp>
#include <causeway/nn/options.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/grad_check.hpp"

namespace causeway::testing {

struct golden {
  std::map<std::string, std::vector<float>> numbers;
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> targets;

  /// Targets that count.
  [[nodiscard]] float tokens() const {
    return static_cast<float>(std::count_if(targets.begin(), targets.end(), [](std::int32_t t) { return t >= 0; }));
  }
};

template <class T>
std::vector<T> read_numbers(std::istream& in, std::size_t count) {
  std::vector<T> values(count);
  in.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(count * sizeof(T)));
  return values;
}

inline golden read_golden(const std::string& name) {
  std::ifstream in{std::filesystem::path{__FILE__}.parent_path() / ".." / "golden" / (name + ".golden"), std::ios::binary};
  REQUIRE(in.good());
  std::vector<std::pair<std::string, std::size_t>> entries;
  for (std::string line; std::getline(in, line) && !line.empty();) {
    std::istringstream words{line};
    std::string kind, entry;
    std::size_t count = 0;
    words >> kind >> entry >> count;
    entries.emplace_back(entry, count);
  }
  golden g;
  for (const auto& [entry, count] : entries) {
    if (entry == "inputs") {
      g.inputs = read_numbers<std::int32_t>(in, count);
    } else if (entry == "targets") {
      g.targets = read_numbers<std::int32_t>(in, count);
    } else {
      g.numbers[entry] = read_numbers<float>(in, count);
    }
  }
  REQUIRE(in.good());
  return g;
}

inline void load_weights(const golden& g, parameter_store& store) {
  for (std::size_t i = 0; i < store.segments().size(); ++i) {
    const auto& s = store.segments()[i];
    const auto& values = g.numbers.at("weight:" + s.name);
    REQUIRE(static_cast<std::int64_t>(values.size()) == s.size());
    std::copy(values.begin(), values.end(), store.value(i));
  }
  store.touch();
}

/// max |a − b| / max |b|.
inline double relative_difference(std::span<const float> a, std::span<const float> b) {
  REQUIRE(a.size() == b.size());
  double difference = 0.0;
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    difference = d <= difference ? difference : d;  // a NaN stays
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
  }
  return difference / largest;
}

/// |a − b|² and |b|².
inline std::pair<double, double> squared_distance(std::span<const float> a, std::span<const float> b) {
  REQUIRE(a.size() == b.size());
  double difference = 0.0;
  double whole = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += d * d;
    whole += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return {difference, whole};
}

/// Every gradient in `store` equals PyTorch's of f32. In f32 each value is within 1e-4 of the largest of its tensor. In
/// bf16 a value whose sum cancels is off by what roundings happened to do, which differs between processors (3 % of the
/// largest on one, 7 % on another): there all of them together are within 4 %, and each tensor within 10 %.
inline void compare_gradients(const golden& g, parameter_store& store, nn::precision p) {
  double difference = 0.0;
  double whole = 0.0;
  for (std::size_t i = 0; i < store.segments().size(); ++i) {
    const auto& s = store.segments()[i];
    INFO(s.name);
    const std::span<const float> ours{store.gradient(i), static_cast<std::size_t>(s.size())};
    const auto& theirs = g.numbers.at("gradient:" + s.name);
    if (p == nn::precision::f32) CHECK(relative_difference(ours, theirs) < 1e-4);
    const auto [d, w] = squared_distance(ours, theirs);
    CHECK(std::sqrt(d / w) < 0.1);
    difference += d;
    whole += w;
  }
  CHECK(std::sqrt(difference / whole) < 0.04);
}

/// Every gradient against finite differences, with weights as large as the script's: near the usual start most paths are
/// almost dead.
template <class Model>
void check_finite_differences(const golden& g, Model& m) {
  parameter_store& store = m.parameters();
  rng random{5};
  for (std::size_t i = 0; i < store.segments().size(); ++i) {
    const auto& s = store.segments()[i];
    for (std::int64_t j = 0; j < s.size(); ++j) {
      store.value(i)[j] += (s.kind == parameter_kind::vector ? 0.1F : 0.25F) * random.normal();
    }
  }
  store.touch();
  REQUIRE(m.forward_backward(g.inputs, g.targets, 2, 1.0F, 0));
  support::grad_check_options options;
  options.step = 0.002F;
  options.directions = 3;
  for (std::size_t i = 0; i < store.segments().size(); ++i) {
    const auto& s = store.segments()[i];
    INFO(s.name);
    const std::vector<float> gradient(store.gradient(i), store.gradient(i) + s.size());
    const auto loss = [&] { return *m.evaluate(g.inputs, g.targets, 2); };
    CHECK(support::grad_check({store.value(i), gradient.size()}, gradient, loss, options) < 2e-3);
  }
}

/// Ten steps of the script's optimizer, and the losses before each and after the last.
template <class Optimizer, class Model>
void check_training(const golden& g, Model& m, double tolerance, Optimizer optimizer = Optimizer{}) {
  optimizer.reset(m.parameters().length());
  const auto& losses = g.numbers.at("losses");
  for (std::size_t step = 0; step < losses.size(); ++step) {
    auto gradients = m.parameters().gradients();
    std::fill(gradients.begin(), gradients.end(), 0.0F);
    const auto loss = m.forward_backward(g.inputs, g.targets, 2, 1.0F / g.tokens(), step);
    REQUIRE(loss);
    INFO("step " << step);
    CHECK(*loss / static_cast<double>(g.tokens()) == Approx(static_cast<double>(losses[step])).epsilon(tolerance));
    optimizer.step(m.backend().pool(), m.parameters().view(), {3e-3F});
    m.parameters().touch();
  }
}

}  // namespace causeway::testing

#endif  // CAUSEWAY_TESTS_NN_GOLDEN_HPP
