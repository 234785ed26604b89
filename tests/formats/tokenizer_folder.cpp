// SPDX-License-Identifier: Apache-2.0
#include <causeway/formats/tokenizer_folder.hpp>

#include <string>

#include "formats/stored.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

namespace causeway::formats {
namespace {

using Catch::Matchers::Contains;

void copy(const test::temporary_folder& to, const std::string& from, const std::string& name) {
  to.write(name, testing::file_bytes(testing::stored("tokenizers/" + from + "/" + name)));
}

data::piece_rule rule_in(const test::temporary_folder& folder) {
  const auto t = read_tokenizer_of(folder.path());
  if (!t) FAIL(t.error().text());
  return t->table().pieces;
}

error refused(const test::temporary_folder& folder) {
  const auto t = read_tokenizer_of(folder.path());
  REQUIRE_FALSE(t);
  return t.error();
}

}  // namespace

TEST_CASE("tokenizer folder: whichever file is there, tokenizer.json first", "[formats][fast]") {
  const test::temporary_folder folder;
  CHECK(refused(folder).code == errc::not_found);
  copy(folder, "tiktoken", "tokenizer.model");
  CHECK(rule_in(folder) == data::piece_rule::llama3);
  copy(folder, "gpt2_files", "vocab.json");
  folder.write("config.json", R"({"model_type":"gpt2"})");
  CHECK_THAT(refused(folder).where, Contains("merges.txt"));
  copy(folder, "gpt2_files", "merges.txt");
  CHECK(rule_in(folder) == data::piece_rule::gpt2);
  copy(folder, "llama3", "tokenizer.json");
  CHECK(rule_in(folder) == data::piece_rule::llama3);
}

TEST_CASE("tokenizer folder: vocab.json of something else than GPT-2 is not taken for GPT-2's", "[formats][fast]") {
  const test::temporary_folder folder;
  copy(folder, "gpt2_files", "vocab.json");
  copy(folder, "gpt2_files", "merges.txt");
  CHECK_THAT(refused(folder).message, Contains("tokenizer.json"));
  folder.write("config.json", R"({"model_type":"llama"})");
  CHECK_THAT(refused(folder).message, Contains("llama"));
  folder.write("tokenizer_config.json", R"({"tokenizer_class":"GPT2TokenizerFast"})");
  CHECK(rule_in(folder) == data::piece_rule::gpt2);
  folder.write("config.json", R"({"model_type":"gpt2"})");
  folder.write("tokenizer_config.json", R"({"tokenizer_class":"Qwen2Tokenizer"})");
  CHECK_THAT(refused(folder).message, Contains("Qwen2Tokenizer"));
}

}  // namespace causeway::formats
