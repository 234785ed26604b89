// SPDX-License-Identifier: Apache-2.0
#include <causeway/formats/tokenizer_parts.hpp>

#include <causeway/formats/tokenizer_json.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "formats/stored.hpp"
#include "support/catch.hpp"

namespace causeway::formats {
namespace {

using Catch::Matchers::Contains;
using testing::file_bytes;
using testing::stored;
using ids = std::vector<std::int32_t>;

std::string golden(const std::string& name) { return file_bytes(stored("tokenizers/" + name)); }

// What tokenizers and tiktoken made of text.txt, or, with `_special`, of special.txt.
ids expected(const std::string& name) {
  const auto root = parse_json(golden("ids.json"), "ids.json");
  REQUIRE(root);
  const json_value* const list = root->find(name);
  REQUIRE(list != nullptr);
  ids all;
  for (const json_value& v : list->items) all.push_back(static_cast<std::int32_t>(v.integer));
  return all;
}

data::bpe_tokenizer ok(result<data::bpe_tokenizer> t) {
  if (!t) FAIL(t.error().text());
  return *std::move(t);
}

void check_golden(data::bpe_tokenizer t, const std::string& name) {
  const std::string text = golden("text.txt");
  ids tokens;
  t.encode(text, tokens);
  CHECK(tokens == expected(name));
  REQUIRE(tokens.size() > 500);
  std::string back;
  REQUIRE(t.decode(tokens, back));
  CHECK(back == text);
}

// All that a run does with one: keep it as text, export it, read that.
void check_travels(const data::bpe_tokenizer& t, const std::string& name) {
  const auto kept = ok(data::bpe_tokenizer::from_text(t.to_text(), "kept"));
  CHECK(kept.table() == t.table());
  CHECK(kept.hash() == t.hash());
  check_golden(kept, name);
  const auto text = tokenizer_text(t);
  REQUIRE(text);
  const auto exported = ok(read_tokenizer(*text, "exported"));
  CHECK(exported.vocabulary() == t.vocabulary());
  CHECK(exported.end_of_text() == t.end_of_text());
  CHECK(exported.table().specials == t.table().specials);
  check_golden(exported, name);
}

std::string lines(const std::string& extra) { return golden("tiktoken/tokenizer.model") + extra; }

error refused(const result<data::bpe_tokenizer>& t) {
  REQUIRE_FALSE(t);
  return t.error();
}

}  // namespace

TEST_CASE("tokenizers of others: tokenizer.json of GPT-2 and Llama 3 gives the ids of tokenizers", "[formats][fast]") {
  const std::string name = GENERATE("gpt2", "llama3");
  const auto t = ok(read_tokenizer(golden(name + "/tokenizer.json"), name));
  check_golden(t, name);
  check_travels(t, name);
  CHECK(t.end_of_text() == (name == "gpt2" ? 420 : 421));
  CHECK(t.vocabulary() == (name == "gpt2" ? 421 : 424));
  CHECK_THAT(tokenizer_config_text(t, 64), Contains(name == "gpt2" ? "<|endoftext|>" : "<|end_of_text|>"));
}

TEST_CASE("tokenizers of others: vocab.json and merges.txt give the ids of tokenizers", "[formats][fast]") {
  const auto read = [](const std::string& vocabulary, const std::string& merges) {
    return read_vocabulary_and_merges(vocabulary, merges, "files");
  };
  const std::string vocabulary = golden("gpt2_files/vocab.json"), merges = golden("gpt2_files/merges.txt");
  const auto t = ok(read(vocabulary, merges));
  check_golden(t, "gpt2");
  CHECK(t.end_of_text() == 420);
  CHECK(t.table() == ok(read_tokenizer(golden("gpt2/tokenizer.json"), "x")).table());
  CHECK(refused(read(vocabulary, merges + "zz qq\n")).code == errc::corrupt);
  CHECK_THAT(refused(read(vocabulary, merges + "ab\n")).message, Contains("'ab'"));
  CHECK_THAT(refused(read(vocabulary, merges + "! \"\n")).message, Contains("makes no token"));
  CHECK_THAT(refused(read("{\"\\u2581the\":0}", "")).message, Contains("not one of bytes"));
  CHECK_THAT(refused(read("{\"a\":\"b\"}", "")).message, Contains("no number"));
  CHECK_THAT(refused(read("{\"a\":-1}", "")).message, Contains("negative"));
  CHECK_THAT(refused(read("{\"a\":0}", "")).message, Contains("no token for byte 0"));
  CHECK(refused(read("{\"a\":2000000000}", "")).code == errc::too_large);
  CHECK(refused(read("[]", "")).code == errc::corrupt);
}

TEST_CASE("tokenizers of others: tiktoken's ranks give the ids of tiktoken", "[formats][fast]") {
  const auto t = ok(read_tiktoken(lines(""), data::piece_rule::llama3, "ranks"));
  check_golden(t, "tiktoken");
  check_travels(t, "tiktoken");
  CHECK(t.end_of_text() == 421);
  const auto gpt2 = ok(read_tiktoken(lines(""), data::piece_rule::gpt2, "ranks"));
  check_golden(gpt2, "tiktoken_gpt2");
  CHECK(gpt2.end_of_text() == 420);
  const auto bad = [](const std::string& line) {
    return refused(read_tiktoken(lines(line), data::piece_rule::llama3, "ranks"));
  };
  CHECK_THAT(bad("x").where, Contains("line 421"));
  CHECK_THAT(bad("\n\x0A\x05").message, Contains("SentencePiece"));
  CHECK_THAT(bad("YQ== 1x").message, Contains("base64"));
  CHECK_THAT(bad("YQ=* 500").message, Contains("base64"));
  CHECK_THAT(bad("YQ== 500").message, Contains("bytes of another token"));
  CHECK_THAT(bad("eHl6eHl6 7").message, Contains("two tokens"));
  CHECK(bad("eHl6eHl6 99999999").code == errc::too_large);
}

TEST_CASE("tokenizers of others: special tokens are not taken from a text", "[formats][fast]") {
  auto t = ok(read_tokenizer(golden("llama3/tokenizer.json"), "x"));
  ids tokens;
  t.encode("a<|end_of_text|>", tokens);
  for (const std::int32_t token : tokens) CHECK(token < 420);
  std::string back;
  tokens.insert(tokens.end(), {420, 421, 422});
  REQUIRE(t.decode(tokens, back));
  CHECK(back == "a<|end_of_text|>");
  CHECK_FALSE(t.decode(ids{424}, back));
}

TEST_CASE("tokenizers of others: special tokens taken from a text are those of tokenizers and tiktoken",
          "[formats][fast]") {
  const auto ranks = [](data::piece_rule rule) { return ok(read_tiktoken(lines(""), rule, "ranks")); };
  const auto check = [](data::bpe_tokenizer t, const std::string& name) {
    ids tokens;
    t.encode_with_specials(golden("special.txt"), tokens);
    CHECK(tokens == expected(name + "_special"));
    CHECK(std::count_if(tokens.begin(), tokens.end(), [](std::int32_t token) { return token >= 420; }) > 1);
  };
  check(ok(read_tokenizer(golden("gpt2/tokenizer.json"), "x")), "gpt2");
  check(ok(read_tokenizer(golden("llama3/tokenizer.json"), "x")), "llama3");
  check(ranks(data::piece_rule::llama3), "tiktoken");
  check(ranks(data::piece_rule::gpt2), "tiktoken_gpt2");
}

TEST_CASE("tokenizers of others: without special tokens in it, a text has the same tokens", "[formats][fast]") {
  auto t = ok(read_tokenizer(golden("llama3/tokenizer.json"), "x"));
  ids tokens;
  t.encode_with_specials(golden("text.txt"), tokens);
  CHECK(tokens == expected("llama3"));
  tokens.clear();
  t.encode_with_specials("<|eot_id|>", tokens);
  CHECK(tokens == ids{422});
  data::bpe_tokenizer bytes;  // has none
  tokens.clear();
  bytes.encode_with_specials("<|a", tokens);
  CHECK(tokens == ids{'<', '|', 'a'});
}

TEST_CASE("tokenizers of others: what is not known is refused by name", "[formats][fast]") {
  const auto with = [](const std::string& name, const std::string& from, const std::string& to) {
    std::string text = golden(name + "/tokenizer.json");
    REQUIRE(text.find(from) != std::string::npos);
    text.replace(text.find(from), from.size(), to);
    return refused(read_tokenizer(text, "x")).message;
  };
  CHECK_THAT(with("llama3", R"(\\p{N}{1,3})", R"(\\p{N})"), Contains("the pattern (?i:'s|"));
  CHECK_THAT(with("llama3", "\"Isolated\"", "\"Removed\""), Contains("Split"));
  CHECK_THAT(with("llama3", "\"type\": \"Split\"", "\"type\": \"Digits\""), Contains("Digits"));
  CHECK_THAT(with("llama3", "\"use_regex\": false", "\"use_regex\": true"), Contains("use_regex"));
  CHECK_THAT(with("gpt2", "\"add_prefix_space\": false", "\"add_prefix_space\": true"), Contains("add_prefix_space"));
  CHECK_THAT(with("gpt2", "\"use_regex\": true", "\"use_regex\": false"), Contains("use_regex"));
  CHECK_THAT(with("gpt2", "\"type\": \"ByteLevel\"", "\"type\": \"Metaspace\""), Contains("Metaspace"));
  CHECK_THAT(with("gpt2", "\"normalizer\": null", "\"normalizer\": {\"type\": \"NFC\"}"), Contains("normalizer"));
  CHECK_THAT(with("gpt2", "\"byte_fallback\": false", "\"byte_fallback\": true"), Contains("byte_fallback"));
  CHECK_THAT(with("gpt2", "\"special\": true", "\"special\": false"), Contains("<|endoftext|>"));
  CHECK_THAT(with("gpt2", "\"lstrip\": false", "\"lstrip\": true"), Contains("<|endoftext|>"));
  CHECK_THAT(with("gpt2", "\"single_word\": false", "\"single_word\": true"), Contains("single_word"));
  CHECK_THAT(with("gpt2", "\"type\": \"BPE\"", "\"type\": \"WordPiece\""), Contains("WordPiece"));
  CHECK_THAT(with("gpt2", "\"id\": 420", "\"id\": 5"), Contains("number of another token"));
}

}  // namespace causeway::formats
