// SPDX-License-Identifier: Apache-2.0
#include <causeway/formats/model_config.hpp>

#include <string>

#include "formats/stored.hpp"
#include "support/catch.hpp"

namespace causeway::formats {
namespace {

using Catch::Matchers::Contains;

template <class Options>
Options read_as(const std::string& text) {
  const auto read = read_config(text, "config.json");
  REQUIRE(read);
  REQUIRE(std::holds_alternative<Options>(*read));
  return std::get<Options>(*read);
}

error refusal_of(const std::string& text) {
  const auto read = read_config(text, "config.json");
  REQUIRE_FALSE(read);
  return read.error();
}

// A small Llama with settings added.
std::string llama_with(const std::string& more) {
  return R"({"model_type":"llama","hidden_size":16,"num_attention_heads":4,"intermediate_size":24)" + more + "}";
}
std::string gpt_with(const std::string& more) { return R"({"model_type":"gpt2","n_embd":16,"n_head":2)" + more + "}"; }

nn::gpt_options small_gpt() {
  nn::gpt_options o;
  o.layers = 3, o.heads = 2, o.width = 8, o.context = 32, o.vocabulary = 300, o.mlp_ratio = 2, o.epsilon = 1e-6F,
  o.tie = false;
  return o;
}
nn::llama_options small_llama() {
  nn::llama_options o;
  o.layers = 3, o.heads = 4, o.kv_heads = 2, o.width = 16, o.hidden = 24, o.context = 32, o.vocabulary = 300;
  o.theta = 500000.0F, o.scaling = {8.0F, 1.0F, 4.0F, 8192}, o.epsilon = 1e-6F, o.tie = true;
  return o;
}

}  // namespace

TEST_CASE("config: what is missing has the value that transformers gives it", "[formats][fast]") {
  const auto gpt = read_as<nn::gpt_options>(R"({"model_type":"gpt2"})");
  CHECK(gpt.layers == 12);
  CHECK(gpt.vocabulary == 50257);
  CHECK(gpt.mlp_ratio == 4);
  CHECK(gpt.epsilon == 1e-5F);
  CHECK(gpt.tie);
  CHECK(gpt.dropout == 0.0F);
  const auto llama = read_as<nn::llama_options>(R"({"model_type":"llama"})");
  CHECK(llama.width == 4096);
  CHECK(llama.kv_heads == 32);
  CHECK(llama.context == 2048);
  CHECK(llama.epsilon == 1e-6F);
  CHECK_FALSE(llama.tie);
}

TEST_CASE("config: rotary scaling is read where old and new files have it", "[formats][fast]") {
  const std::string numbers =
      R"("factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192)";
  const auto old_one = read_as<nn::llama_options>(
      llama_with(R"(,"rope_theta":500000.0,"rope_scaling":{"rope_type":"llama3",)" + numbers + "}"));
  const auto new_one = read_as<nn::llama_options>(
      llama_with(R"(,"rope_parameters":{"rope_theta":500000.0,"rope_type":"llama3",)" + numbers + "}"));
  for (const auto& o : {old_one, new_one}) {
    CHECK(o.theta == 500000.0F);
    CHECK(o.scaling == kernels::rotary_scaling{8.0F, 1.0F, 4.0F, 8192});
  }
  CHECK_THAT(refusal_of(llama_with(R"(,"rope_scaling":{"rope_type":"llama3"})")).message, Contains("factor is missing"));
  CHECK_THAT(refusal_of(llama_with(R"(,"rope_scaling":{"type":"dynamic","factor":2.0})")).message, Contains("\"dynamic\""));
}

TEST_CASE("config: what our models do not compute is refused by name", "[formats][fast]") {
  for (const char* more : {R"(,"attention_bias":true)", R"(,"mlp_bias":true)", R"(,"hidden_act":"gelu")",
                           R"(,"head_dim":8)", R"(,"quantization_config":{})", R"(,"partial_rotary_factor":0.5)"}) {
    CAPTURE(more);
    const auto refused = refusal_of(llama_with(more));
    CHECK(refused.code == errc::unsupported);
    CHECK_THAT(std::string{more}, Contains(refused.message.substr(0, refused.message.find(' '))));
  }
  for (const char* more : {R"(,"activation_function":"relu")", R"(,"n_inner":20)", R"(,"scale_attn_weights":false)",
                           R"(,"scale_attn_by_inverse_layer_idx":true)", R"(,"add_cross_attention":true)"}) {
    CAPTURE(more);
    CHECK(refusal_of(gpt_with(more)).code == errc::unsupported);
  }
  CHECK_THAT(refusal_of(R"({"model_type":"mamba"})").message, Contains("gpt2 and llama"));
  CHECK(refusal_of("{}").code == errc::unsupported);
}

TEST_CASE("config: values that make no sense are refused", "[formats][fast]") {
  for (const char* more :
       {R"(,"n_layer":"3")", R"(,"n_layer":-1)", R"(,"n_embd2":0,"n_positions":0)", R"(,"vocab_size":1.5)",
        R"(,"layer_norm_epsilon":"x")", R"(,"layer_norm_epsilon":1e300)", R"(,"tie_word_embeddings":3)"}) {
    CAPTURE(more);
    CHECK(refusal_of(gpt_with(more)).code == errc::corrupt);
  }
  CHECK(refusal_of(R"({"model_type":"gpt2","n_embd":0,"n_inner":5})").code == errc::corrupt);
  CHECK(refusal_of(R"({"model_type":"gpt2","n_head":7})").code == errc::invalid_argument);
  CHECK(refusal_of(R"({"model_type":"gpt2","n_layer":9000000000000000000})").code == errc::too_large);
  CHECK(refusal_of("[]").code == errc::corrupt);
}

TEST_CASE("config: a text that we write reads back as the same model", "[formats][fast]") {
  const auto gpt = read_as<nn::gpt_options>(config_text(small_gpt(), 299));
  CHECK(check_same_model(gpt, small_gpt()));
  CHECK(check_same_model(small_gpt(), gpt));
  const auto llama = read_as<nn::llama_options>(config_text(small_llama(), std::nullopt));
  CHECK(check_same_model(llama, small_llama()));
  CHECK(check_same_model(small_llama(), llama));
  auto plain = small_llama();
  plain.scaling = {};
  CHECK(check_same_model(read_as<nn::llama_options>(config_text(plain, std::nullopt)), plain));
}

TEST_CASE("config: two models are the same if they compute the same", "[formats][fast]") {
  const auto gpt = small_gpt();
  auto other = gpt;
  other.dropout = 0.1F, other.context = 16, other.recompute = true;
  CHECK(check_same_model(gpt, other));
  CHECK_FALSE(check_same_model(other, gpt));  // there are no positions for the longer context
  other = gpt;
  other.tie = true;
  CHECK_FALSE(check_same_model(gpt, other));
  CHECK(check_same_model(other, gpt));
  other = gpt, other.epsilon = 1e-5F;
  CHECK(check_same_model(gpt, other).error().where == "epsilon");
  CHECK(check_same_model(gpt, small_llama()).error().where == "family");
  auto llama = small_llama();
  llama.scaling.factor = 4.0F;
  CHECK(check_same_model(small_llama(), llama).error().where == "scaling");
}

TEST_CASE("config: a folder without one says what would be a folder", "[formats][fast]") {
  const auto read = read_config_of(testing::stored("nothing"));
  REQUIRE_FALSE(read);
  CHECK(read.error().code == errc::not_found);
  CHECK_THAT(read.error().message, Contains("save_pretrained"));
}

}  // namespace causeway::formats
