// SPDX-License-Identifier: Apache-2.0
#include <causeway/nn/key_value_cache.hpp>

#include <causeway/core/rng.hpp>
#include <causeway/nn/gpt.hpp>
#include <causeway/nn/llama.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace causeway::nn {
namespace {

using Catch::Matchers::Contains;

gpt_options small_gpt(precision p) {
  gpt_options o;
  o.layers = 3, o.heads = 2, o.width = 16, o.context = 24, o.vocabulary = 50, o.precision = p;
  return o;
}
llama_options small_llama(precision p) {
  llama_options o;
  o.layers = 3, o.heads = 4, o.kv_heads = 2, o.width = 24, o.hidden = 40, o.context = 24, o.vocabulary = 50,
  o.precision = p;
  return o;
}

std::vector<std::int32_t> tokens_of(std::size_t count) {
  rng random{5, 0};
  std::vector<std::int32_t> tokens;
  while (tokens.size() < count) tokens.push_back(static_cast<std::int32_t>(random.below(50)));
  return tokens;
}

// Gives the text in pieces of these sizes; after each the scores must be those of the text up to there.
template <class Model>
void check_pieces(Model& model, key_value_cache& past, const std::vector<std::size_t>& pieces, double margin) {
  const auto tokens = tokens_of(24);
  std::vector<float> whole(50), cached(50);
  std::size_t seen = 0;
  for (const std::size_t piece : pieces) {
    REQUIRE(model.next_token_logits(std::span{tokens}.subspan(seen, piece), cached, past));
    seen += piece;
    REQUIRE(past.length() == static_cast<std::int64_t>(seen));
    REQUIRE(model.next_token_logits(std::span{tokens}.first(seen), whole));
    for (std::size_t i = 0; i < whole.size(); ++i) CHECK(cached[i] == Approx(whole[i]).margin(margin));
  }
}

template <class Model>
void check_model(Model model, double margin) {
  rng random{9, 0};
  for (float& v : model.parameters().values()) v += random.uniform() * 0.2F - 0.1F;  // so that positions and biases matter
  model.parameters().touch();
  key_value_cache past = model.make_cache();
  check_pieces(model, past, {1, 1, 1, 1, 5, 1, 14}, margin);
  past.clear();
  check_pieces(model, past, {10, 1, 1, 12}, margin);
  std::vector<float> out(50);
  const std::vector<std::int32_t> one{1};
  const auto full = model.next_token_logits(one, out, past);
  REQUIRE_FALSE(full);
  CHECK_THAT(full.error().message, Contains("room for 24"));
}

}  // namespace

TEST_CASE("key-value cache: a text given in pieces has the scores of the whole text", "[nn][fast]") {
  const auto p = GENERATE(as<precision>{}, precision::f32, precision::bf16);
  const double margin = p == precision::f32 ? 1e-4 : 5e-2;
  check_model(*gpt::create(small_gpt(p)), margin);
  check_model(*llama::create(small_llama(p)), margin);
}

TEST_CASE("key-value cache: a text that is refused leaves it as it was", "[nn][fast]") {
  auto model = gpt::create(small_gpt(precision::f32));
  REQUIRE(model);
  auto past = model->make_cache();
  std::vector<float> out(50), small(3);
  const std::vector<std::int32_t> good{1, 2}, bad{50}, none;
  REQUIRE(model->next_token_logits(good, out, past));
  CHECK_FALSE(model->next_token_logits(bad, out, past));
  CHECK_FALSE(model->next_token_logits(none, out, past));
  CHECK_FALSE(model->next_token_logits(std::span{good}.first(1), small, past));
  CHECK(past.length() == 2);
  CHECK(past.context() == 24);
}

}  // namespace causeway::nn
