// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PARALLEL_ELASTIC_DRAWN_MODELS_HPP
#define CAUSEWAY_TESTS_PARALLEL_ELASTIC_DRAWN_MODELS_HPP

// How far a run has come: the loss of the whole model with its parameters, and how far these are from others'.

#include <causeway/kernels/backend.hpp>
#include <causeway/nn/gpt.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "parallel/elastic/whole_models.hpp"
#include "support/conformance.hpp"
#include "support/pipelines.hpp"

namespace support {

/// As a run begins with it.
inline causeway::nn::gpt drawn_model(std::int64_t layers, bool tie) {
  auto o = small_gpt(layers);
  o.tie = tie;
  return std::move(*causeway::nn::gpt::create(o, causeway::kernels::cpu_backend{1}));
}
inline bool is_tied(const parameters& all) { return !all.contains("lm_head.weight"); }

/// Of the whole model with these parameters, on a batch that nobody trained on.
inline double held_out_loss(const parameters& all, std::int64_t layers) {
  static std::map<std::pair<std::int64_t, bool>, causeway::nn::gpt> models;  // sweeps ask after each run
  const std::pair which{layers, is_tied(all)};
  auto at = models.find(which);
  if (at == models.end()) at = models.emplace(which, drawn_model(layers, which.second)).first;
  auto& store = at->second.parameters();
  for (std::size_t i = 0; i < store.segments().size(); ++i) {
    const auto& values = all.at(store.segments()[i].name);
    std::copy(values.begin(), values.end(), store.value(i));
  }
  store.touch();
  const token_batch b{0, 1000, 32};
  return *at->second.evaluate(b.inputs, b.targets, 32) / static_cast<double>(b.inputs.size());
}

/// Where a run begins.
inline const parameters& drawn_parameters(std::int64_t layers, bool tie = false) {
  static std::map<std::pair<std::int64_t, bool>, parameters> drawn;
  const auto [at, fresh] = drawn.try_emplace({layers, tie});
  if (fresh) {
    auto model = drawn_model(layers, tie);
    detail::collect(model.parameters(), at->second);
  }
  return at->second;
}

/// How far `is` is from `was`, in parts of how far that is from where a run begins.
inline double off(const parameters& is, const parameters& was, std::int64_t layers) {
  double apart = 0, moved = 0;
  for (const auto& [name, values] : drawn_parameters(layers, is_tied(was))) {
    if (!is.contains(name) || !was.contains(name)) return NAN;
    apart += squares_apart(is.at(name), was.at(name));
    moved += squares_apart(was.at(name), values);
  }
  return std::sqrt(apart / moved);
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_PARALLEL_ELASTIC_DRAWN_MODELS_HPP
