// SPDX-License-Identifier: Apache-2.0
#include <causeway/formats/gguf_model.hpp>

#include <causeway/nn/gpt.hpp>
#include <causeway/nn/llama.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "formats/gguf_contents.hpp"
#include "formats/stored.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

namespace causeway::formats {
namespace {

using testing::gguf_contents;

nn::llama_options small_llama() {
  nn::llama_options o{.layers = 1, .heads = 4, .kv_heads = 2, .width = 32, .hidden = 48, .context = 16, .vocabulary = 260};
  o.theta = 500.0F;
  return o;
}
nn::gpt_options small_gpt() { return {.layers = 2, .heads = 2, .width = 32, .context = 16, .vocabulary = 257}; }

data::bpe_tokenizer words(bool with_end) {
  auto t = data::bpe_tokenizer::make(std::vector<data::bpe_merge>{{'t', 'h'}, {256, 'e'}}, with_end);
  REQUIRE(t);
  return *std::move(t);
}

/// A model whose parameters are their own numbers, so that each shows where it went.
template <class Model, class Options>
Model counted(const Options& options) {
  auto model = Model::create(options);
  REQUIRE(model);
  float next = 0.0F;
  for (float& v : model->parameters().values()) v = next++;
  return *std::move(model);
}

template <class Model>
gguf_contents saved(Model& model, const data::bpe_tokenizer& tokenizer, const gguf_options& options = {}) {
  const test::temporary_folder folder;
  const std::string path = folder / "model.gguf";
  const auto done = save_gguf(path, model.options(), model.parameters(), tokenizer, options);
  if (!done) FAIL(done.error().text());
  return gguf_contents{testing::file_bytes(path)};
}

template <class Model>
error refused(Model& model, const data::bpe_tokenizer& tokenizer, const gguf_options& options = {}) {
  const test::temporary_folder folder;
  const auto done = save_gguf(folder / "model.gguf", model.options(), model.parameters(), tokenizer, options);
  REQUIRE_FALSE(done);
  return done.error();
}

template <class Model>
std::vector<float> segment(Model& model, std::string_view name) {
  auto& store = model.parameters();
  for (std::size_t i = 0; i < store.segments().size(); ++i) {
    const auto& s = store.segments()[i];
    if (s.name == name) return {store.value(i), store.value(i) + s.rows * s.columns};
  }
  FAIL("no segment " << name);
  return {};
}

}  // namespace

TEST_CASE("GGUF: tensors have the names of llama.cpp", "[formats][fast]") {
  CHECK(gguf_name("transformer.wte.weight") == "token_embd.weight");
  CHECK(gguf_name("transformer.h.11.attn.c_attn.bias") == "blk.11.attn_qkv.bias");
  CHECK(gguf_name("model.layers.0.mlp.down_proj.weight") == "blk.0.ffn_down.weight");
  CHECK(gguf_name("model.norm.weight") == "output_norm.weight");
  CHECK(gguf_name("lm_head.weight") == "output.weight");
}

TEST_CASE("GGUF: a GPT-2 has its shape, and matrices with a row for each output", "[formats][fast]") {
  auto model = counted<nn::gpt>(small_gpt());
  const auto file = saved(model, data::bpe_tokenizer{}, {.name = "small"});
  CHECK(file.texts.at("general.architecture") == "gpt2");
  CHECK(file.texts.at("general.name") == "small");
  CHECK(file.numbers.at("general.file_type") == 0);
  CHECK(file.numbers.at("gpt2.block_count") == 2);
  CHECK(file.numbers.at("gpt2.context_length") == 16);
  CHECK(file.numbers.at("gpt2.embedding_length") == 32);
  CHECK(file.numbers.at("gpt2.feed_forward_length") == 128);
  CHECK(file.numbers.at("gpt2.attention.head_count") == 2);
  CHECK(file.numbers.at("gpt2.attention.layer_norm_epsilon") == Approx(1e-5));
  CHECK(file.tensors.size() == 2 + 2 * 12 + 2);  // the output layer is the table
  CHECK(file.tensors.at("blk.1.attn_qkv.weight").dimensions == std::vector<std::uint64_t>{32, 96});
  CHECK(file.tensors.at("blk.1.attn_qkv.bias").dimensions == std::vector<std::uint64_t>{96});
  CHECK(file.floats("blk.1.attn_qkv.weight") == segment(model, "h.1.attn.c_attn.weight"));
  CHECK(file.floats("blk.0.ffn_down.bias") == segment(model, "h.0.mlp.c_proj.bias"));
  CHECK(file.floats("position_embd.weight") == segment(model, "wpe.weight"));
}

TEST_CASE("GGUF: rotated heads have both halves of each pair beside each other", "[formats][fast]") {
  auto model = counted<nn::llama>(small_llama());
  const auto file = saved(model, data::bpe_tokenizer{});
  const auto ours = segment(model, "model.layers.0.self_attn.qkv_proj.weight");
  const auto row_of = [](const std::vector<float>& matrix, std::size_t row) {
    return std::vector<float>(matrix.begin() + static_cast<std::ptrdiff_t>(row * 32),
                              matrix.begin() + static_cast<std::ptrdiff_t>((row + 1) * 32));
  };
  const auto queries = file.floats("blk.0.attn_q.weight"), keys = file.floats("blk.0.attn_k.weight");
  REQUIRE(queries.size() == 32U * 32U);
  REQUIRE(keys.size() == 16U * 32U);
  for (std::size_t head = 0; head < 4; ++head) {
    for (std::size_t i = 0; i < 4; ++i) {
      CAPTURE(head, i);
      const std::size_t first = head * 8;
      CHECK(row_of(queries, first + 2 * i) == row_of(ours, first + i));
      CHECK(row_of(queries, first + 2 * i + 1) == row_of(ours, first + i + 4));
      if (head >= 2) continue;
      CHECK(row_of(keys, first + 2 * i) == row_of(ours, 32 + first + i));
      CHECK(row_of(keys, first + 2 * i + 1) == row_of(ours, 32 + first + i + 4));
    }
  }
  CHECK(file.floats("blk.0.attn_v.weight") == std::vector<float>(ours.end() - 16 * 32, ours.end()));
  CHECK(file.tensors.contains("output.weight"));
  CHECK_FALSE(file.tensors.contains("rope_freqs.weight"));
  CHECK(file.numbers.at("llama.attention.head_count_kv") == 2);
  CHECK(file.numbers.at("llama.rope.dimension_count") == 8);
  CHECK(file.numbers.at("llama.rope.freq_base") == 500);
}

TEST_CASE("GGUF: stretched wavelengths are divisors of the frequencies", "[formats][fast]") {
  auto options = small_llama();
  options.scaling = {.factor = 4.0F, .low = 1.0F, .high = 2.5F, .original_context = 8};
  auto model = counted<nn::llama>(options);
  const auto divisors = saved(model, data::bpe_tokenizer{}).floats("rope_freqs.weight");
  REQUIRE(divisors.size() == 4);  // turns in the original context: 1.27, and then less than one
  const double kept = (8.0 / 6.283185307179586 - 1.0) / 1.5;
  CHECK(divisors[0] == Approx(1.0 / ((1.0 - kept) / 4.0 + kept)));
  for (std::size_t i = 1; i < 4; ++i) CHECK(divisors[i] == 4.0F);
}

TEST_CASE("GGUF: the tokenizer has names, kinds and merges for all rows", "[formats][fast]") {
  const bool with_end = GENERATE(false, true);
  auto model = counted<nn::llama>(small_llama());
  const auto file = saved(model, words(with_end));
  const auto& names = file.text_lists.at("tokenizer.ggml.tokens");
  const auto& kinds = file.number_lists.at("tokenizer.ggml.token_type");
  REQUIRE(names.size() == 260);
  REQUIRE(kinds.size() == 260);
  CHECK(names[257] == "the");
  CHECK(names[258] == (with_end ? "<|endoftext|>" : "[unused 258]"));
  CHECK(kinds[257] == 1);
  CHECK(kinds[258] == (with_end ? 3 : 5));
  CHECK(kinds[259] == 5);
  CHECK(file.text_lists.at("tokenizer.ggml.merges") == std::vector<std::string>{"t h", "th e"});
  CHECK(file.texts.at("tokenizer.ggml.model") == "gpt2");
  CHECK(file.texts.at("tokenizer.ggml.pre") == "gpt-2");
  CHECK(file.numbers.at("tokenizer.ggml.add_bos_token") == 0);
  CHECK(file.numbers.contains("tokenizer.ggml.eos_token_id") == with_end);
  if (with_end) CHECK(file.numbers.at("tokenizer.ggml.eos_token_id") == 258);
}

TEST_CASE("GGUF: types of tensors", "[formats][fast]") {
  auto model = counted<nn::gpt>(small_gpt());
  const auto type = GENERATE(gguf_type::f16, gguf_type::bf16, gguf_type::q8_0);
  const auto file = saved(model, data::bpe_tokenizer{}, {.type = type});
  const auto number = static_cast<std::uint32_t>(type);
  CHECK(file.tensors.at("token_embd.weight").type == number);
  CHECK(file.tensors.at("blk.0.ffn_up.weight").type == number);
  CHECK(file.tensors.at("blk.0.ffn_up.bias").type == 0);
  CHECK(file.tensors.at("output_norm.weight").type == 0);
  CHECK(file.tensors.at("position_embd.weight").type == 0);
}

TEST_CASE("GGUF: rows that are no multiple of a block are f16 where q8_0 was asked for", "[formats][fast]") {
  auto options = small_llama();
  options.hidden = 40;
  auto model = counted<nn::llama>(options);
  const auto file = saved(model, data::bpe_tokenizer{}, {.type = gguf_type::q8_0});
  CHECK(file.tensors.at("blk.0.ffn_down.weight").type == 1);  // 40 columns
  CHECK(file.tensors.at("blk.0.ffn_up.weight").type == 8);    // 32
}

TEST_CASE("GGUF: what llama.cpp would do otherwise is refused by name", "[formats][fast]") {
  auto model = counted<nn::llama>(small_llama());
  data::bpe_table table = words(false).table();
  table.pieces = data::piece_rule::gpt2;
  table.whole_pieces = true;
  const auto whole = data::bpe_tokenizer::make(table);
  REQUIRE(whole);
  CHECK(refused(model, *whole).text().find("ignore_merges") != std::string::npos);

  std::vector<data::bpe_merge> many;
  for (int i = 0; i < 8; ++i) many.push_back({'a' + i, 'b'});
  const auto larger = data::bpe_tokenizer::make(many, false);
  REQUIRE(larger);
  CHECK(refused(model, *larger).text().find("264 tokens, and the model 260") != std::string::npos);

  model.parameters().values()[3] = std::numeric_limits<float>::quiet_NaN();
  CHECK(refused(model, data::bpe_tokenizer{}, {.type = gguf_type::q8_0}).text().find("diverged") != std::string::npos);
}

}  // namespace causeway::formats
