// SPDX-License-Identifier: Apache-2.0
#include <causeway/nn/prefix_features.hpp>

#include <causeway/nn/gpt.hpp>
#include <causeway/nn/llama.hpp>

#include "golden.hpp"
#include "support/catch.hpp"

namespace causeway::nn {

TEST_CASE("prefix_features: the mean of the last block's output over the first tokens is numpy's", "[nn][fast]") {
  const auto g = testing::read_golden("gpt");
  const auto p = GENERATE(as<precision>{}, precision::f32, precision::bf16);
  gpt_options o;
  o.layers = 2, o.heads = 3, o.width = 24, o.context = 16, o.vocabulary = 41;
  o.dropout = 0.5F;  // of training alone
  o.precision = p;
  auto m = gpt::create(o);
  REQUIRE(m);
  testing::load_weights(g, m->parameters());
  std::vector<std::int32_t> tokens;
  for (std::ptrdiff_t d = 0; d < 2; ++d) {
    tokens.insert(tokens.end(), g.inputs.begin() + 12 * d, g.inputs.begin() + 12 * d + 8);
  }
  std::vector<float> features;
  REQUIRE(prefix_features(*m, tokens, 2, features));
  const auto expected = testing::read_golden("dipaco/routing").numbers.at("features");
  CHECK(testing::relative_difference(features, expected) < (p == precision::f32 ? 1e-5 : 2e-2));
}

TEST_CASE("prefix_features: hidden states are what one block more would be given", "[nn][fast]") {
  llama_options o;
  o.layers = 2, o.heads = 2, o.kv_heads = 2, o.width = 16, o.context = 8, o.vocabulary = 20;
  auto shallow = llama::create(o);
  o.layers = 3;
  auto deep = llama::create(o);
  REQUIRE(shallow);
  REQUIRE(deep);
  auto& from = shallow->parameters();
  auto& to = deep->parameters();
  for (std::size_t i = 0; i < from.segments().size(); ++i) {
    for (std::size_t j = 0; j < to.segments().size(); ++j) {
      if (to.segments()[j].name == from.segments()[i].name) {
        std::copy_n(from.value(i), from.segments()[i].size(), to.value(j));
      }
    }
  }
  to.touch();
  const std::vector<std::int32_t> tokens{3, 1, 4, 1, 5, 9, 2, 6};
  const auto hidden = shallow->hidden_states(tokens, 2);
  REQUIRE(hidden);
  auto tape = deep->make_tape();
  const auto stage = deep->forward_stage(tape, {0, 2}, {tokens, {}, 2, 0.0F, 0}, {}, pass_kind::evaluation);
  REQUIRE(stage);
  const auto ours = std::span{hidden->data<float>(), 8 * 16U};
  const auto boundary = std::span{stage->output.value.data<float>(), 8 * 16U};
  CHECK(std::equal(ours.begin(), ours.end(), boundary.begin()));
}

TEST_CASE("prefix_features: a part of a model has none, and wrong tokens are refused", "[nn][fast]") {
  gpt_options o;
  o.layers = 2, o.heads = 2, o.width = 8, o.context = 4, o.vocabulary = 5;
  auto part = gpt::create(o, kernels::cpu_backend{}, model_part{block_range{0, 1}});
  auto all = gpt::create(o);
  const std::vector<std::int32_t> tokens{1, 2}, wrong{1, 9};
  std::vector<float> features;
  CHECK_FALSE(prefix_features(*part, tokens, 1, features));
  CHECK_FALSE(prefix_features(*all, wrong, 1, features));
  CHECK(features.empty());
  CHECK(prefix_features(*all, tokens, 2, features));
  CHECK(features.size() == 16);
}

}  // namespace causeway::nn
