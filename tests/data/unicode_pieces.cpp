// SPDX-License-Identifier: Apache-2.0
#include <causeway/data/pre_tokenizer.hpp>

#include <causeway/core/rng.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"

namespace causeway::data {
namespace {

using list = std::vector<std::string>;

list pieces(std::string_view text, piece_rule rule) {
  list out;
  while (!text.empty()) {
    const std::size_t length = first_piece(text, rule);
    REQUIRE(length > 0);
    REQUIRE(length <= text.size());
    out.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return out;
}

list gpt2(std::string_view text) { return pieces(text, piece_rule::gpt2); }
list llama3(std::string_view text) { return pieces(text, piece_rule::llama3); }

}  // namespace

TEST_CASE("unicode pieces: GPT-2's pattern", "[data][fast]") {
  CHECK(gpt2("").empty());
  CHECK(gpt2("don't we'll DON'T 'tis") == list{"don", "'t", " we", "'ll", " DON", "'", "T", " '", "tis"});
  CHECK(gpt2("x=12345, \xC2\xBD") == list{"x", "=", "12345", ",", " \xC2\xBD"});
  CHECK(gpt2("a  b\n\n  c \n") == list{"a", " ", " b", "\n\n ", " c", " \n"});
  CHECK(gpt2("Gr\xC3\xB6\xC3\x9F"
             "e \xE6\x88\x91\xE8\x83\xBD") == list{"Gr\xC3\xB6\xC3\x9F"
                                                   "e",
                                                   " \xE6\x88\x91\xE8\x83\xBD"});
  CHECK(gpt2("e\xCC\x81"
             "a") == list{"e", "\xCC\x81", "a"});  // a combining mark is no letter
  CHECK(gpt2("a\xC2\xA0"
             "b") == list{"a", "\xC2\xA0", "b"});  // only a plain space leads a word
  CHECK(gpt2("a\xE3\x80\x80 b") == list{"a", "\xE3\x80\x80", " b"});
  CHECK(gpt2("\x1C") == list{"\x1C"});
}

TEST_CASE("unicode pieces: Llama 3's pattern", "[data][fast]") {
  CHECK(llama3("").empty());
  CHECK(llama3("DON'T we'Ll 'tis") == list{"DON", "'T", " we", "'Ll", " '", "tis"});
  CHECK(llama3("it'\xC5\xBF") == list{"it", "'\xC5\xBF"});  // the long s is an s of another case
  CHECK(llama3("12345 678") == list{"123", "45", " ", "678"});
  CHECK(llama3("(a) \"b\"") == list{"(a", ")", " \"", "b", "\""});
  CHECK(llama3("\tx\t\ty") == list{"\tx", "\t", "\ty"});
  CHECK(llama3("a;\n\nb \r\n  \n c") == list{"a", ";\n\n", "b", " \r\n  \n", " c"});
  CHECK(llama3("a  \n  ") == list{"a", "  \n", "  "});
  CHECK(llama3("\nx") == list{"\n", "x"});
  CHECK(llama3("a   b") == list{"a", "  ", " b"});
  CHECK(llama3("e\xCC\x81"
               "a") == list{"e",
                            "\xCC\x81"
                            "a"});  // here a mark may lead a word
  CHECK(llama3("\xC2\xA0"
               "b  1") == list{"\xC2\xA0"
                               "b",
                               " ", " ", "1"});
}

TEST_CASE("unicode pieces: our own rule is that of the pre-tokenizer", "[data][fast]") {
  CHECK(pieces("caf\xC3\xA9 12", piece_rule::causeway) == list{"caf\xC3\xA9", " 12"});
}

TEST_CASE("unicode pieces: bytes that are not UTF-8 are characters of their own, and stay", "[data][fast]") {
  CHECK(gpt2("a\xFF\xFE b") == list{"a", "\xFF\xFE", " b"});
  CHECK(gpt2("\xE6\x88!") == list{"\xE6\x88!"});  // cut off in the middle
  CHECK(llama3("\xFF"
               "a") == list{"\xFF"
                            "a"});
  rng random{3, 0};
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (std::uint64_t n = random.below(40); n > 0; --n) {
      constexpr std::string_view common = " \n\r'sStl19.\xC3\xA9\xE6\x88\x91\xC2\xA0";
      text += random.below(4) == 0 ? static_cast<char>(random.below(256)) : common[random.below(common.size())];
    }
    for (const piece_rule rule : {piece_rule::gpt2, piece_rule::llama3}) {
      std::string all;
      for (const std::string& piece : pieces(text, rule)) all += piece;
      CHECK(all == text);
    }
  }
}

}  // namespace causeway::data
