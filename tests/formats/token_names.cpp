// SPDX-License-Identifier: Apache-2.0
#include <causeway/formats/tokenizer_parts.hpp>

#include <string>
#include <vector>

#include "support/catch.hpp"

namespace causeway::formats {

TEST_CASE("token names: letters of bytes, names of special tokens, merges by names", "[formats][fast]") {
  const auto t = data::bpe_tokenizer::make(std::vector<data::bpe_merge>{{' ', 't'}, {256, 0xC3}}, true);
  REQUIRE(t);
  const auto names = names_of(*t, "x");
  REQUIRE(names);
  REQUIRE(names->tokens.size() == 259);
  CHECK(names->tokens['a'] == "a");
  CHECK(names->tokens[256] == "\xC4\xA0t");          // a space is U+0120
  CHECK(names->tokens[257] == "\xC4\xA0t\xC3\x83");  // byte C3 is U+00C3
  CHECK(names->tokens[258] == "<|endoftext|>");
  CHECK(names->merges == std::vector<std::string>{"\xC4\xA0 t", "\xC4\xA0t \xC3\x83"});
}

TEST_CASE("token names: two tokens of the same bytes have none", "[formats][fast]") {
  const auto t =
      data::bpe_tokenizer::make(std::vector<data::bpe_merge>{{'a', 'b'}, {'b', 'c'}, {256, 'c'}, {'a', 257}}, false);
  REQUIRE(t);
  const auto names = names_of(*t, "tokenizer.json");
  REQUIRE_FALSE(names);
  CHECK(names.error().code == errc::unsupported);
  CHECK_THAT(names.error().text(), Catch::Matchers::Contains("token 259 has the same bytes"));
}

}  // namespace causeway::formats
