// SPDX-License-Identifier: Apache-2.0
#include <causeway/data/tokenizer.hpp>

#include "support/catch.hpp"

#include <string>
#include <vector>

namespace cw = causeway;
namespace data = causeway::data;

TEST_CASE("byte tokenizer: every byte comes back", "[data][fast]") {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  const data::byte_tokenizer tokenizer;
  std::vector<std::int32_t> tokens;
  tokenizer.encode(all, tokens);
  REQUIRE(tokens.size() == 256);
  for (std::int32_t i = 0; i < 256; ++i) CHECK(tokens[static_cast<std::size_t>(i)] == i);
  std::string back;
  REQUIRE(tokenizer.decode(tokens, back));
  CHECK(back == all);
}

TEST_CASE("byte tokenizer: end of text is a token of its own, without bytes", "[data][fast]") {
  const data::byte_tokenizer plain;
  const data::byte_tokenizer with_end{true};
  CHECK(plain.vocabulary() == 256);
  CHECK_FALSE(plain.end_of_text());
  CHECK(with_end.vocabulary() == 257);
  CHECK(with_end.end_of_text() == 256);
  CHECK(plain.hash() != with_end.hash());
  const std::vector<std::int32_t> tokens{'a', 256, 'b'};
  std::string back;
  REQUIRE(with_end.decode(tokens, back));
  CHECK(back == "ab");
  CHECK(plain.decode(tokens, back).error().code == cw::errc::invalid_argument);
  CHECK_FALSE(with_end.decode(std::vector<std::int32_t>{-1}, back));
}

TEST_CASE("tokenize: each document is followed by end of text", "[data][fast]") {
  data::byte_tokenizer with_end{true};
  const std::vector<data::document> documents{{"1", "ab"}, {"2", "c"}};
  const auto stream = data::tokenize(with_end, documents);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(stream.size()));
  stream.read(0, tokens);
  CHECK(tokens == std::vector<std::int32_t>{'a', 'b', 256, 'c', 256});
  data::byte_tokenizer plain;
  CHECK(data::tokenize(plain, documents).size() == 3);
  CHECK(data::tokenize(plain, "abcd").size() == 4);
}
