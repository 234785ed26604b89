// SPDX-License-Identifier: Apache-2.0
#include <causeway/formats/huggingface.hpp>

#include <causeway/optim/adamw.hpp>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "formats/stored.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

namespace causeway::formats {
namespace {

using Catch::Matchers::Contains;

// Calls f with the model of a folder, made with its options and filled with its weights.
template <class F>
void with_loaded(const std::string& folder, F&& f) {
  const auto options = read_config_of(folder);
  REQUIRE(options);
  const auto load = [&]<class Model>(Model made) {
    const auto done = load_model(folder, made);
    if (!done) FAIL(done.error().text());
    f(made);
  };
  if (const auto* o = std::get_if<nn::gpt_options>(&*options)) load(*nn::gpt::create(*o));
  if (const auto* o = std::get_if<nn::llama_options>(&*options)) load(*nn::llama::create(*o));
}

template <class Model>
void check_logits(Model& model, const testing::expected& e) {
  const std::size_t rows = 2, length = e.inputs.size() / rows;
  std::vector<float> logits(static_cast<std::size_t>(model.vocabulary()));
  for (std::size_t row = 0; row < rows; ++row) {
    REQUIRE(model.next_token_logits(std::span{e.inputs}.subspan(row * length, length), logits));
    for (std::size_t i = 0; i < logits.size(); ++i) {
      CHECK(logits[i] == Approx(e.logits[row * logits.size() + i]).margin(1e-4));
    }
  }
}

// A copy of a stored model in which a file is to be changed.
struct changed_copy {
  explicit changed_copy(const std::string& model) {
    std::filesystem::copy(testing::stored(model), folder.path(), std::filesystem::copy_options::recursive);
  }
  error refused_as(const model_options& options) const {
    auto made = nn::llama::create(std::get<nn::llama_options>(options));
    REQUIRE(made);
    const auto done = load_model(folder.path(), *made);
    REQUIRE_FALSE(done);
    return done.error();
  }
  void replace(const std::string& file, const std::string& from, const std::string& to) const {
    std::string text = testing::file_bytes(folder / file);
    REQUIRE(text.find(from) != std::string::npos);
    text.replace(text.find(from), from.size(), to);
    folder.write(file, text);
  }
  test::temporary_folder folder;
};

#define ALL_MODELS as<std::string>{}, "gpt2", "gpt2_untied", "llama", "llama_tied", "llama_sharded"

}  // namespace

TEST_CASE("Hugging Face: a model of transformers has the logits that it has there", "[formats][fast]") {
  const std::string name = GENERATE(ALL_MODELS);
  CAPTURE(name);
  with_loaded(testing::stored(name), [&](auto& model) { check_logits(model, testing::expected_of(name)); });
}

TEST_CASE("Hugging Face: training goes on from a loaded model with PyTorch's losses", "[formats][fast]") {
  const std::string name = GENERATE(ALL_MODELS);
  CAPTURE(name);
  const auto e = testing::expected_of(name);
  with_loaded(testing::stored(name), [&](auto& model) {
    const auto tokens = static_cast<float>(e.inputs.size());
    optim::adamw adam{{.weight_decay = 0.0F}};
    auto& store = model.parameters();
    adam.reset(store.length());
    for (const float expected : e.losses) {
      std::fill(store.gradients().begin(), store.gradients().end(), 0.0F);
      const auto loss = model.forward_backward(e.inputs, e.targets, 2, 1.0F / tokens, 0);
      REQUIRE(loss);
      CHECK(*loss / static_cast<double>(tokens) == Approx(expected).epsilon(1e-4));
      adam.step(model.backend().pool(), store.view(), {.learning_rate = 0.01F});
      store.touch();
    }
  });
}

TEST_CASE("Hugging Face: what is loaded and saved has the same tensors, bit for bit", "[formats][fast]") {
  const std::string name = GENERATE(ALL_MODELS);
  CAPTURE(name);
  const test::temporary_folder folder;
  with_loaded(testing::stored(name), [&](auto& model) { REQUIRE(save_model(folder.path(), model)); });
  if (name != "llama_sharded") {  // which becomes one file
    CHECK(testing::file_bytes(folder / "model.safetensors") ==
          testing::file_bytes(testing::stored(name + "/model.safetensors")));
  }
  with_loaded(folder.path(), [&](auto& model) { check_logits(model, testing::expected_of(name)); });
}

TEST_CASE("Hugging Face: half the size is half the precision", "[formats][fast]") {
  const test::temporary_folder folder;
  const auto type = GENERATE(element::f16, element::bf16);
  with_loaded(testing::stored("gpt2"), [&](auto& model) { REQUIRE(save_model(folder.path(), model, {.type = type})); });
  with_loaded(testing::stored("gpt2"), [&](auto& model) {
    using model_type = std::remove_reference_t<decltype(model)>;
    auto rounded = model_type::create(model.options());
    REQUIRE(rounded);
    REQUIRE(load_model(folder.path(), *rounded));
    for (std::size_t i = 0; i < model.parameters().values().size(); ++i) {
      const float value = model.parameters().values()[i];
      const float wanted = type == element::f16 ? static_cast<float>(f16{value}) : static_cast<float>(bf16{value});
      REQUIRE(rounded->parameters().values()[i] == wanted);
    }
  });
}

TEST_CASE("Hugging Face: files of the bare GPT-2, with masks and without prefixes, are read", "[formats][fast]") {
  const auto file = safetensors_file::open(testing::stored("gpt2/model.safetensors"));
  REQUIRE(file);
  const std::vector<std::byte> mask(16);
  std::vector<tensor_source> tensors{{"h.0.attn.bias", element::boolean, {1, 1, 4, 4}, io::produce(mask)},
                                     {"h.1.attn.masked_bias", element::f32, {}, io::produce(std::span{mask}.first(4))}};
  for (const tensor_entry& t : file->tensors()) {
    tensors.push_back({t.name.substr(12), t.type, t.shape, io::produce(file->bytes(t))});
  }
  const test::temporary_folder folder;
  io::posix_storage storage;
  REQUIRE(storage.write_atomic(folder / "model.safetensors", safetensors(std::move(tensors))));
  folder.write("config.json", testing::file_bytes(testing::stored("gpt2/config.json")));
  with_loaded(folder.path(), [&](auto& model) { check_logits(model, testing::expected_of("gpt2")); });
}

TEST_CASE("Hugging Face: a context may be shorter than the stored one", "[formats][fast]") {
  auto options = std::get<nn::gpt_options>(*read_config_of(testing::stored("gpt2")));
  options.context = 5;
  auto shorter = nn::gpt::create(options);
  REQUIRE(shorter);
  REQUIRE(load_model(testing::stored("gpt2"), *shorter));
  with_loaded(testing::stored("gpt2"), [&](auto& model) {
    const auto e = testing::expected_of("gpt2");
    const auto tokens = std::span{e.inputs}.first(5);
    std::vector<float> ours(37), whole(37);
    REQUIRE(shorter->next_token_logits(tokens, ours));
    REQUIRE(model.next_token_logits(tokens, whole));
    CHECK(ours == whole);
  });
}

TEST_CASE("Hugging Face: a part of a model takes what it holds", "[formats][fast]") {
  const auto options = std::get<nn::llama_options>(*read_config_of(testing::stored("llama")));
  auto part = nn::llama::create(options, kernels::cpu_backend{}, nn::model_part{nn::block_range{1, 2}});
  REQUIRE(part);
  REQUIRE(load_model(testing::stored("llama"), *part));
  with_loaded(testing::stored("llama"), [&](auto& whole) {
    for_common_pieces(whole.parameters().segments(), part->parameters().segments(), [&](const auto& from, const auto& to) {
      for (std::int64_t i = 0; i < to.size(); ++i) {
        REQUIRE(part->parameters().values()[static_cast<std::size_t>(to.offset + i)] ==
                whole.parameters().values()[static_cast<std::size_t>(from.offset + i)]);
      }
    });
  });
  const std::string norm = "model.layers.1.input_layernorm.weight",
                    other = "model.layers.1.post_attention_layernorm.weight";
  const auto value = [&](const std::string& name) {
    const auto all = part->parameters().segments();
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& s) { return s.name == name; });
    return part->parameters().value(static_cast<std::size_t>(found - all.begin()));
  };
  const float before = *value(other);
  *value(norm) = *value(other) = 7.0F;
  REQUIRE(load_model(testing::stored("llama"), *part, {norm}));
  CHECK(*value(norm) == 7.0F);
  CHECK(*value(other) == before);
  const test::temporary_folder folder;
  CHECK_THAT(save_model(folder.path(), *part).error().message, Contains("gather the whole model"));
}

TEST_CASE("Hugging Face: an output layer of its own begins as the table of a tied model", "[formats][fast]") {
  auto options = std::get<nn::llama_options>(*read_config_of(testing::stored("llama_tied")));
  options.tie = false;
  auto untied = nn::llama::create(options);
  REQUIRE(untied);
  REQUIRE(load_model(testing::stored("llama_tied"), *untied));
  check_logits(*untied, testing::expected_of("llama_tied"));
}

TEST_CASE("Hugging Face: weights that do not fit their config.json are refused by name", "[formats][fast]") {
  const auto options = read_config_of(testing::stored("llama"));
  REQUIRE(options);
  const std::string head = "lm_head.weight", weights = "model.safetensors";
  {
    const changed_copy copy{"llama"};
    copy.replace(weights, head, "lm_heax.weight");
    CHECK_THAT(copy.refused_as(*options).message, Contains("lm_heax.weight, which no model here has"));
  }
  {
    const changed_copy copy{"llama"};
    copy.replace(weights, "model.norm.weight", "lm.rotary_emb.inv_freq");  // longer, so that the header must shrink
    CHECK(copy.refused_as(*options).code == errc::corrupt);
  }
  {
    const changed_copy copy{"llama"};
    copy.replace(weights, R"("shape":[24,16])", R"("shape":[16,24])");
    CHECK_THAT(copy.refused_as(*options).message, Contains("has the shape [16, 24]; config.json says [24, 16]"));
  }
  {
    const changed_copy copy{"llama"};
    copy.replace("config.json", R"("num_hidden_layers": 2)", R"("num_hidden_layers": 3)");
    CHECK(copy.refused_as(*options).code == errc::wrong_model);
    CHECK_THAT(copy.refused_as(*read_config_of(copy.folder.path())).message, Contains("no tensor model.layers.2"));
  }
}

}  // namespace causeway::formats
