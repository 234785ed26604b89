// SPDX-License-Identifier: Apache-2.0
#include <causeway/formats/tokenizer_parts.hpp>

#include <set>
#include <string>

#include "support/catch.hpp"

namespace causeway::formats {

TEST_CASE("byte letters: GPT-2's letters, one for each byte, and back", "[formats][fast]") {
  CHECK(letters_of(" a\n") ==
        "\xC4\xA0"
        "a\xC4\x8A");
  CHECK(letters_of("\xC3\xA9") == "\xC3\x83\xC2\xA9");  // printable in Latin-1: themselves
  CHECK(letters_of("\xAD") == "\xC5\x83");              // the last one, U+0143
  std::set<std::string> all;
  for (int b = 0; b < 256; ++b) {
    const std::string byte(1, static_cast<char>(b));
    all.insert(letters_of(byte));
    CHECK(bytes_of_letters(letters_of(byte)) == byte);
  }
  CHECK(all.size() == 256);
  CHECK(bytes_of_letters("") == std::string{});
}

TEST_CASE("byte letters: other characters stand for no byte", "[formats][fast]") {
  CHECK_FALSE(bytes_of_letters("a b"));           // a space is written as a letter
  CHECK_FALSE(bytes_of_letters("\xC5\x84"));      // U+0144
  CHECK_FALSE(bytes_of_letters("\xE2\x96\x81"));  // SentencePiece's blank
  CHECK_FALSE(bytes_of_letters("\xC4"));
  CHECK_FALSE(bytes_of_letters("\xC1\xA1"));  // an overlong a
  CHECK_FALSE(bytes_of_letters("\xA9"));
}

}  // namespace causeway::formats
