// SPDX-License-Identifier: Apache-2.0
#include <causeway/data/pre_tokenizer.hpp>

#include <causeway/core/rng.hpp>
#include <causeway/data/text.hpp>

#include "support/catch.hpp"

#include <string>
#include <vector>

namespace cw = causeway;
namespace data = causeway::data;

namespace {

std::vector<std::string> pieces(std::string_view text) {
  std::vector<std::string> out;
  data::for_each_piece(text, [&](std::string_view piece) { out.emplace_back(piece); });
  return out;
}

using list = std::vector<std::string>;

}  // namespace

TEST_CASE("pre-tokenizer: cuts ASCII as GPT-2 does", "[data][fast]") {
  CHECK(pieces("").empty());
  CHECK(pieces("Hello world") == list{"Hello", " world"});
  CHECK(pieces("In 1 Samuel 17:4, Goliath!") == list{"In", " 1", " Samuel", " 17", ":", "4", ",", " Goliath", "!"});
  CHECK(pieces("don't we'll 'tis they've I'd") == list{"don", "'t", " we", "'ll", " '", "tis", " they", "'ve", " I", "'d"});
  CHECK(pieces("a  b\n\n  c \n") == list{"a", " ", " b", "\n\n ", " c", " \n"});
  CHECK(pieces("x\ny\n\nz") == list{"x", "\n", "y", "\n", "\n", "z"});
  CHECK(pieces("\tif (a==0)") == list{"\t", "if", " (", "a", "==", "0", ")"});
  CHECK(pieces("   ") == list{"   "});
  CHECK(pieces("'") == list{"'"});
  CHECK(pieces("''s") == list{"''", "s"});
}

TEST_CASE("pre-tokenizer: keeps UTF-8 characters whole", "[data][fast]") {
  CHECK(pieces("Grüße aus Köln") == list{"Grüße", " aus", " Köln"});
  CHECK(pieces("東京 2020年") == list{"東京", " 2020", "年"});
}

TEST_CASE("pre-tokenizer: long runs are cut between characters", "[data][fast]") {
  std::string wide;
  for (int i = 0; i < 100; ++i) wide += "山";
  for (const std::string& text :
       {std::string(1000, 'a'), std::string(1000, '-'), std::string(1000, '\n'), wide, "x" + wide}) {
    for (const std::string& piece : pieces(text)) {
      CHECK(piece.size() <= data::longest_piece);
      CHECK_FALSE(data::first_invalid_utf8(piece));
    }
  }
  CHECK(pieces(std::string(1000, '\x80')).size() == 16);  // no characters at all: still cut
}

TEST_CASE("pre-tokenizer: the pieces in order are the text, for any bytes", "[data][fast]") {
  cw::rng random{3};
  for (int i = 0; i < 300; ++i) {
    std::string text;
    const std::uint64_t kinds = 2 + random.below(255);  // few different bytes make long runs
    for (std::uint64_t n = random.below(500); n-- > 0;) text += static_cast<char>(' ' + random.below(kinds));
    std::string joined;
    for (const std::string& piece : pieces(text)) {
      REQUIRE_FALSE(piece.empty());
      REQUIRE(piece.size() <= data::longest_piece);
      joined += piece;
    }
    REQUIRE(joined == text);
  }
}
