// SPDX-License-Identifier: Apache-2.0
#include <causeway/formats/tokenizer_json.hpp>

#include <causeway/data/bpe_trainer.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace causeway::formats {
namespace {

using Catch::Matchers::Contains;

data::bpe_tokenizer trained(bool with_end) {
  auto t = data::train_bpe("the cat and the hat and the caf\xC3\xA9 that they had in the end, then and there",
                           {.merges = 40, .end_of_text = with_end});
  REQUIRE(t);
  return *std::move(t);
}

std::string text_of(const data::bpe_tokenizer& t) {
  auto text = tokenizer_text(t);
  REQUIRE(text);
  return *text;
}

error refused_with(std::string text, const std::string& from, const std::string& to) {
  REQUIRE(text.find(from) != std::string::npos);
  text.replace(text.find(from), from.size(), to);
  const auto read = read_tokenizer(text, "tokenizer.json");
  REQUIRE_FALSE(read);
  return read.error();
}

}  // namespace

TEST_CASE("tokenizer.json: what we write reads back as the same tokenizer", "[formats][fast]") {
  const bool with_end = GENERATE(false, true);
  const auto t = trained(with_end);
  REQUIRE(t.merges().size() > 5);
  const auto read = read_tokenizer(text_of(t), "x");
  if (!read) FAIL(read.error().text());
  CHECK(read->hash() == t.hash());
  CHECK(read->vocabulary() == t.vocabulary());
  const std::string config = tokenizer_config_text(t, 128);
  CHECK_THAT(config, Contains("128"));
  CHECK((config.find("eos_token") != std::string::npos) == with_end);
}

TEST_CASE("tokenizer.json: bytes are a tokenizer without merges", "[formats][fast]") {
  auto read = read_tokenizer(text_of(data::bpe_tokenizer{}), "x");
  REQUIRE(read);
  std::vector<std::int32_t> tokens;
  read->encode("a\n\xC3\xA9", tokens);
  CHECK(tokens == std::vector<std::int32_t>{'a', '\n', 0xC3, 0xA9});
}

TEST_CASE("tokenizer.json: merges as pairs are read, too", "[formats][fast]") {
  const std::vector<data::bpe_merge> merges{{'a', 'b'}};
  const std::string text = text_of(*data::bpe_tokenizer::make(merges, false));
  const std::size_t at = text.find("\"a b\"");
  const auto read = read_tokenizer(text.substr(0, at) + R"(["a","b"])" + text.substr(at + 5), "x");
  REQUIRE(read);
  CHECK(read->merges().size() == 1);
}

TEST_CASE("tokenizer.json: two tokens of the same bytes cannot be written", "[formats][fast]") {
  const std::vector<data::bpe_merge> merges{{'a', 'b'}, {'b', 'c'}, {256, 'c'}, {'a', 257}};
  const auto text = tokenizer_text(*data::bpe_tokenizer::make(merges, false));
  REQUIRE_FALSE(text);
  CHECK(text.error().code == errc::unsupported);
}

TEST_CASE("tokenizer.json: tokenizers that would give other tokens are refused", "[formats][fast]") {
  const auto t = trained(true);
  const std::string text = text_of(t), end = "\"id\":" + std::to_string(*t.end_of_text());
  CHECK_THAT(refused_with(text, "{1,64}", "{1,65}").message, Contains("cuts text by other rules"));
  CHECK_THAT(refused_with(text, R"("normalizer":null)", R"("normalizer":{"type":"NFC"})").message,
             Contains("changes text"));
  CHECK_THAT(refused_with(text, R"("type":"BPE")", R"("type":"Unigram")").message, Contains("no BPE"));
  CHECK_THAT(refused_with(text, R"("dropout":null)", R"("dropout":0.1)").message, Contains("dropout"));
  CHECK_THAT(refused_with(text, R"("a":97)", R"("a":98)").message, Contains("two tokens with number 98"));
  CHECK_THAT(refused_with(text, R"("a":97)", R"("a":900)").message, Contains("another order"));
  CHECK_THAT(refused_with(text, R"("b":98,)", "").message, Contains("another order"));
  CHECK_THAT(refused_with(text, "\"merges\":[", "\"merges\":[\"ab cd\",").message, Contains("'ab' and 'cd'"));
  CHECK_THAT(refused_with(text, "\"merges\":[", "\"merges\":[7,").message, Contains("two tokens"));
  CHECK_THAT(refused_with(text, end, "\"id\":7").message, Contains("number"));
  CHECK_THAT(refused_with(text, R"("special":true)", R"("special":false)").message, Contains("<|endoftext|>"));
  CHECK(refused_with(text, "{", "").code == errc::corrupt);
  CHECK_FALSE(read_tokenizer("[]", "x"));
}

}  // namespace causeway::formats
