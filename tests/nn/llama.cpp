// SPDX-License-Identifier: Apache-2.0
#include <causeway/nn/llama.hpp>

#include <causeway/optim/adamw.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "golden.hpp"
#include "support/catch.hpp"
#include "support/models.hpp"

namespace causeway::nn {
namespace {

using Catch::Matchers::Contains;

llama_options golden_options() {
  llama_options o;
  o.layers = 2, o.heads = 4, o.kv_heads = 2, o.width = 24, o.hidden = 40, o.context = 16, o.vocabulary = 41;
  return o;
}

std::string refused(const std::function<void(llama_options&)>& change) {
  llama_options o = golden_options();
  change(o);
  auto m = llama::create(o);
  REQUIRE_FALSE(m);
  return m.error().text();
}

std::uint64_t hash_with(const std::function<void(llama_options&)>& change) {
  llama_options o = golden_options();
  change(o);
  auto m = llama::create(o);
  REQUIRE(m);
  return m->config_hash();
}

}  // namespace

TEST_CASE("Llama: loss and every gradient equal PyTorch's", "[nn][fast]") {
  const auto g = testing::read_golden("llama");
  const auto threads = GENERATE(1U, 2U);
  const auto p = GENERATE(as<precision>{}, precision::f32, precision::bf16);
  CAPTURE(threads, p);
  auto o = golden_options();
  o.precision = p;
  auto m = llama::create(o, kernels::cpu_backend{threads});
  REQUIRE(m);
  m->activation_memory().poison(true);
  testing::load_weights(g, m->parameters());
  const auto loss = m->forward_backward(g.inputs, g.targets, 2, 1.0F / g.tokens(), 0);
  REQUIRE(loss);
  const auto expected = static_cast<double>(g.numbers.at("losses")[0]);
  CHECK(*loss / static_cast<double>(g.tokens()) == Approx(expected).epsilon(p == precision::f32 ? 1e-5 : 5e-3));
  testing::compare_gradients(g, m->parameters(), p);
}

TEST_CASE("Llama: ten AdamW steps have PyTorch's losses", "[nn][fast]") {
  const auto g = testing::read_golden("llama");
  auto m = llama::create(golden_options());
  REQUIRE(m);
  testing::load_weights(g, m->parameters());
  testing::check_training<optim::adamw>(g, *m, 1e-4);
}

TEST_CASE("Llama: gradients equal finite differences, tied head included", "[nn][fast]") {
  auto o = golden_options();
  o.tie = GENERATE(true, false);
  o.layers = 1;
  auto m = llama::create(o);
  REQUIRE(m);
  const auto g = testing::read_golden("llama");
  testing::check_finite_differences(g, *m);
}

TEST_CASE("Llama: options that cannot work are refused with what would", "[nn][fast]") {
  CHECK_THAT(refused([](auto& o) { o.heads = 5; }), Contains("heads (5) does not divide width (24)"));
  CHECK_THAT(refused([](auto& o) { o.kv_heads = 3; }),
             Contains("kv_heads (3) does not divide heads (4)") && Contains("1, 2, 4"));
  CHECK_THAT(refused([](auto& o) { o.heads = 8; }), Contains("heads of size 3") && Contains("even"));
  CHECK_THAT(refused([](auto& o) { o.hidden = 0; }), Contains("hidden is 0"));
  CHECK_THAT(refused([](auto& o) { o.theta = -1.0F; }), Contains("theta"));
  CHECK_THAT(refused([](auto& o) { o.scaling.factor = 0.5F; }), Contains("scaling"));
  CHECK_THAT(refused([](auto& o) { o.scaling.high = o.scaling.low; }), Contains("low < high"));
}

TEST_CASE("Llama: the configuration hash tells runs and families apart", "[nn][fast]") {
  const auto base = hash_with([](auto&) {});
  CHECK(hash_with([](auto& o) { o.precision = precision::bf16; }) == base);
  CHECK(hash_with([](auto& o) { o.recompute = true; }) == base);
  CHECK(hash_with([](auto& o) { o.kv_heads = 1; }) != base);
  CHECK(hash_with([](auto& o) { o.theta = 500000.0F; }) != base);
  CHECK(hash_with([](auto& o) { o.hidden = 48; }) != base);
  CHECK(hash_with([](auto& o) { o.tie = true; }) != base);
  CHECK(hash_with([](auto& o) { o.scaling.factor = 8.0F; }) != base);
  CHECK(hash_with([](auto& o) { o.scaling.original_context = 4096; }) == base);  // of no effect without a factor
  gpt_options other;
  other.layers = 2, other.heads = 4, other.width = 24, other.context = 16, other.vocabulary = 41;
  auto g = gpt::create(other);
  REQUIRE(g);
  CHECK(g->config_hash() != base);
}

TEST_CASE("Llama: parameters have Hugging Face's names where they are the same", "[nn][fast]") {
  parameter_store store;
  const llama_family family{golden_options(), store};
  CHECK(store.segments()[1].name == "model.layers.0.input_layernorm.weight");
  CHECK(store.segments()[2].rows == 24 + 2 * 2 * 6);
  CHECK(store.segments()[family.head()].name == "lm_head.weight");
  CHECK(store.segments()[family.head()].kind == parameter_kind::embedding);
}

}  // namespace causeway::nn
