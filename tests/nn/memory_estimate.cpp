// SPDX-License-Identifier: Apache-2.0
#include <causeway/nn/memory_estimate.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/models.hpp"

namespace causeway::nn {
namespace {

// Trains two steps and compares what was taken with what was foretold.
template <class Model>
void compare(typename Model::options_type options, std::int64_t batch) {
  auto m = Model::create(options, kernels::cpu_backend{2});
  REQUIRE(m);
  const std::vector<std::int32_t> tokens(static_cast<std::size_t>(batch * options.context), 1);
  for (std::uint64_t step = 0; step < 2; ++step) {
    REQUIRE(m->forward_backward(tokens, tokens, batch, 1e-3F, step));
    m->parameters().touch();
  }
  const memory_estimate e = m->memory_estimate(batch);
  const auto measured = static_cast<double>(m->activation_memory().peak_held() + m->backend().memory().capacity() +
                                            e.parameters + e.gradients + e.low_precision);
  INFO("activations " << m->activation_memory().peak_held() << " foretold " << e.activations + e.activation_gradients);
  INFO("scratch " << m->backend().memory().capacity() << " foretold " << e.logits + e.scratch);
  CHECK(measured < 1.3 * static_cast<double>(e.total()));
  CHECK(static_cast<double>(e.total()) < 1.3 * measured);
  // Activations alone, too: they are what recomputation and precision change.
  const auto activations = static_cast<double>(m->activation_memory().peak_held());
  CHECK(activations < 1.3 * static_cast<double>(e.activations + e.activation_gradients));
  CHECK(static_cast<double>(e.activations + e.activation_gradients) < 1.3 * activations);
}

}  // namespace

TEST_CASE("memory estimate: within 1.3 of what GPT training takes", "[nn][fast]") {
  gpt_options o;
  o.layers = 4, o.heads = 4, o.width = 128, o.context = 128, o.vocabulary = 2000;
  o.precision = GENERATE(as<precision>{}, precision::f32, precision::bf16);
  o.recompute = GENERATE(false, true);
  o.dropout = GENERATE(0.0F, 0.1F);
  CAPTURE(o.precision, o.recompute, o.dropout);
  compare<gpt>(o, 4);
}

TEST_CASE("memory estimate: within 1.3 of what Llama training takes", "[nn][fast]") {
  llama_options o;
  o.layers = 4, o.heads = 4, o.kv_heads = 2, o.width = 128, o.hidden = 352, o.context = 128, o.vocabulary = 2000;
  o.precision = GENERATE(as<precision>{}, precision::f32, precision::bf16);
  o.recompute = GENERATE(false, true);
  CAPTURE(o.precision, o.recompute);
  compare<llama>(o, 4);
}

TEST_CASE("memory estimate: the parts are what they say", "[nn][fast]") {
  gpt_options o;
  o.layers = 2, o.heads = 2, o.width = 32, o.context = 16, o.vocabulary = 100;
  auto f32 = gpt::create(o);
  REQUIRE(f32);
  const auto bytes = static_cast<std::size_t>(f32->parameters().length()) * 4;
  const auto e = f32->memory_estimate(4);
  CHECK(e.parameters == bytes);
  CHECK(e.gradients == bytes);
  CHECK(e.low_precision == 0);
  CHECK(e.logits == 64 * 100 * 4);
  CHECK(10 * f32->memory_estimate(8).activations > 19 * e.activations);
  o.precision = precision::bf16;
  auto bf16 = gpt::create(o);
  REQUIRE(bf16);
  CHECK(bf16->memory_estimate(4).low_precision == bytes / 2);
  CHECK(bf16->memory_estimate(4).activations < e.activations);
  o.recompute = true;
  auto again = gpt::create(o);
  REQUIRE(again);
  CHECK(again->memory_estimate(4).activations < bf16->memory_estimate(4).activations);
}

}  // namespace causeway::nn
