// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_CUDA_MODEL_CASE_HPP
#define CAUSEWAY_TESTS_CUDA_MODEL_CASE_HPP

// Small models on an engine, against PyTorch's golden values and against the processor's backend: for the engine of the
// host and for that of a device.

#include <causeway/cuda/backend.hpp>
#include <causeway/nn/gpt.hpp>
#include <causeway/nn/llama.hpp>

#include "nn/golden.hpp"
#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace causeway_test {

inline causeway::nn::gpt_options golden_gpt() {
  causeway::nn::gpt_options o;
  o.layers = 2, o.heads = 3, o.width = 24, o.context = 16, o.vocabulary = 41;
  return o;
}
inline causeway::nn::llama_options golden_llama() {
  causeway::nn::llama_options o;
  o.layers = 2, o.heads = 4, o.kv_heads = 2, o.width = 24, o.hidden = 40, o.context = 16, o.vocabulary = 41;
  return o;
}

template <class Model, class Options>
Model on_device(const Options& o, std::shared_ptr<causeway::cuda::engine> engine) {
  auto m = Model::create(o, causeway::cuda::backend{std::move(engine)});
  REQUIRE(m);
  return std::move(m).value();
}

/// Loss and every gradient are those of the golden file.
template <class Model>
void check_golden(Model m, const std::string& file) {
  const auto g = causeway::testing::read_golden(file);
  causeway::testing::load_weights(g, m.parameters());
  const auto loss = m.forward_backward(g.inputs, g.targets, 2, 1.0F / g.tokens(), 0);
  REQUIRE(loss);
  CHECK(*loss / static_cast<double>(g.tokens()) == Approx(static_cast<double>(g.numbers.at("losses")[0])).epsilon(1e-5));
  causeway::testing::compare_gradients(g, m.parameters(), causeway::nn::precision::f32);
}

/// Loss and gradients of one pass are the CPU's.
template <class DeviceModel, class HostModel, class Options>
void compare_with_cpu(const std::shared_ptr<causeway::cuda::engine>& engine, const Options& o, double tolerance) {
  auto there = on_device<DeviceModel>(o, engine);
  auto here = HostModel::create(o);
  REQUIRE(here);
  causeway::rng draw{3};
  std::vector<std::int32_t> tokens(2 * 12), targets;
  for (auto& t : tokens) t = static_cast<std::int32_t>(draw.below(41));
  for (std::size_t i = 0; i < tokens.size(); ++i) targets.push_back(tokens[(i + 1) % tokens.size()]);
  const auto expected = here->forward_backward(tokens, targets, 2, 1.0F / 24, 5);
  const auto loss = there.forward_backward(tokens, targets, 2, 1.0F / 24, 5);
  REQUIRE(expected);
  REQUIRE(loss);
  CHECK(*loss == Approx(*expected).epsilon(tolerance / 4));
  for (std::size_t i = 0; i < there.parameters().segments().size(); ++i) {
    const auto& s = there.parameters().segments()[i];
    INFO(s.name);
    const auto count = static_cast<std::size_t>(s.size());
    CHECK(causeway::testing::relative_difference({there.parameters().gradient(i), count},
                                                 {here->parameters().gradient(i), count}) < tolerance);
  }
}

/// What no golden file has: dropout, recomputation, and heads of 64 in bf16.
inline void compare_models_with_cpu(const std::shared_ptr<causeway::cuda::engine>& engine) {
  using causeway::nn::precision;
  using device_gpt = causeway::nn::basic_gpt<causeway::cuda::backend>;
  using device_llama = causeway::nn::basic_llama<causeway::cuda::backend>;
  auto dropping = golden_gpt();
  dropping.dropout = 0.2F;
  for (const bool recompute : {false, true}) {
    dropping.recompute = recompute;
    compare_with_cpu<device_gpt, causeway::nn::gpt>(engine, dropping, 1e-4);
  }
  auto half = golden_gpt();
  half.layers = 1, half.heads = 1, half.width = 64, half.mlp_ratio = 2, half.precision = precision::bf16;
  compare_with_cpu<device_gpt, causeway::nn::gpt>(engine, half, 4e-2);
  auto grouped = golden_llama();
  grouped.layers = 1, grouped.heads = 2, grouped.kv_heads = 1, grouped.width = 128, grouped.precision = precision::bf16;
  compare_with_cpu<device_llama, causeway::nn::llama>(engine, grouped, 5e-2);
}

}  // namespace causeway_test

#endif  // CAUSEWAY_TESTS_CUDA_MODEL_CASE_HPP
