// SPDX-License-Identifier: Apache-2.0
#include <causeway/nn/gpt.hpp>

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

gpt_options golden_options() {
  gpt_options o;
  o.layers = 2, o.heads = 3, o.width = 24, o.context = 16, o.vocabulary = 41;
  return o;
}

std::string refused(const std::function<void(gpt_options&)>& change) {
  gpt_options o = golden_options();
  change(o);
  auto m = gpt::create(o);
  REQUIRE_FALSE(m);
  return m.error().text();
}

std::uint64_t hash_with(const std::function<void(gpt_options&)>& change, unsigned threads = 1) {
  gpt_options o = golden_options();
  change(o);
  auto m = gpt::create(o, kernels::cpu_backend{threads});
  REQUIRE(m);
  return m->config_hash();
}

}  // namespace

TEST_CASE("GPT: loss and every gradient equal PyTorch's", "[nn][fast]") {
  const auto g = testing::read_golden("gpt");
  const auto threads = GENERATE(1U, 2U);
  const auto p = GENERATE(as<precision>{}, precision::f32, precision::bf16);
  CAPTURE(threads, p);
  auto o = golden_options();
  o.precision = p;
  auto m = gpt::create(o, kernels::cpu_backend{threads});
  REQUIRE(m);
  m->activation_memory().poison(true);
  testing::load_weights(g, m->parameters());
  const auto loss = m->forward_backward(g.inputs, g.targets, 2, 1.0F / g.tokens(), 0);
  REQUIRE(loss);
  const auto expected = static_cast<double>(g.numbers.at("losses")[0]);
  CHECK(*loss / static_cast<double>(g.tokens()) == Approx(expected).epsilon(p == precision::f32 ? 1e-5 : 5e-3));
  testing::compare_gradients(g, m->parameters(), p);
}

TEST_CASE("GPT: ten AdamW steps have PyTorch's losses", "[nn][fast]") {
  const auto g = testing::read_golden("gpt");
  auto m = gpt::create(golden_options());
  REQUIRE(m);
  testing::load_weights(g, m->parameters());
  testing::check_training<optim::adamw>(g, *m, 1e-4);
}

TEST_CASE("GPT: gradients equal finite differences, untied head included", "[nn][fast]") {
  gpt_options o = golden_options();
  o.tie = GENERATE(true, false);
  o.layers = 1;
  auto m = gpt::create(o);
  REQUIRE(m);
  const auto g = testing::read_golden("gpt");
  testing::check_finite_differences(g, *m);
}

TEST_CASE("GPT: sizes of GPT-2 small", "[nn][fast]") {
  parameter_store store;
  const gpt_family family{gpt_options{}, store};
  CHECK(store.count() == 124'439'808);
  CHECK(family.head() == 0);
  CHECK(store.segments()[0].name == "wte.weight");
  CHECK(store.segments()[4].name == "h.0.attn.c_attn.weight");
  CHECK(store.segments()[4].rows == 3 * 768);
  CHECK(store.segments().back().name == "ln_f.bias");
  CHECK(store.segments().back().block == 12);
}

TEST_CASE("GPT: options that cannot work are refused with what would", "[nn][fast]") {
  CHECK_THAT(refused([](auto& o) { o.heads = 5; }), Contains("heads (5) does not divide width (24)") && Contains("4, 6"));
  CHECK_THAT(refused([](auto& o) { o.layers = 0; }), Contains("layers is 0"));
  CHECK_THAT(refused([](auto& o) { o.vocabulary = -1; }), Contains("vocabulary is -1"));
  CHECK_THAT(refused([](auto& o) { o.dropout = 1.0F; }), Contains("dropout"));
  CHECK_THAT(refused([](auto& o) { o.epsilon = 0.0F; }), Contains("epsilon"));
  CHECK_THAT(refused([](auto& o) { o.context = std::int64_t{1} << 40U; }), Contains("context"));
  CHECK_THAT(refused([](auto& o) {
               o.width = 1 << 20;
               o.heads = 1;
               o.layers = 1 << 16;
             }),
             Contains("billion parameters"));
}

TEST_CASE("GPT: the configuration hash tells runs apart, not machines", "[nn][fast]") {
  const auto base = hash_with([](auto&) {});
  CHECK(hash_with([](auto&) {}, 3) == base);
  CHECK(hash_with([](auto& o) { o.precision = precision::bf16; }) == base);
  CHECK(hash_with([](auto& o) { o.recompute = true; }) == base);
  CHECK(hash_with([](auto& o) { o.tie = false; }) != base);
  CHECK(hash_with([](auto& o) { o.joined_ends = true; }) != base);
  CHECK(hash_with([](auto& o) { o.heads = 2; }) != base);  // the same parameters, another function
  CHECK(hash_with([](auto& o) { o.layers = 3; }) != base);
  CHECK(hash_with([](auto& o) { o.context = 17; }) != base);
  CHECK(hash_with([](auto& o) { o.vocabulary = 42; }) != base);
  CHECK(hash_with([](auto& o) { o.epsilon = 1e-6F; }) != base);
  CHECK(hash_with([](auto& o) { o.dropout = 0.1F; }) != base);
  CHECK(hash_with([](auto& o) { o.mlp_ratio = 3; }) != base);
}

TEST_CASE("GPT: a dropout stream fixes the masks, another changes them", "[nn][fast]") {
  auto o = golden_options();
  o.dropout = 0.2F;
  auto m = gpt::create(o);
  REQUIRE(m);
  const auto g = testing::read_golden("gpt");
  const auto loss = [&](std::uint64_t stream) { return *m->forward_backward(g.inputs, g.targets, 2, 1.0F, stream); };
  CHECK(loss(1) == loss(1));
  CHECK(loss(1) != loss(2));
}

}  // namespace causeway::nn
