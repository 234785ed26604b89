// SPDX-License-Identifier: Apache-2.0
#include <causeway/data/bpe_table.hpp>

#include <string>

#include "support/catch.hpp"

namespace causeway::data {
namespace {

bpe_table example() {
  return {.tokens = {"a", "b", "ab", "", std::string{"\0\xFF\n", 3}, ""},
          .merges = {{0, 1}},
          .specials = {{3, "<|end|>"}, {5, "a\nb"}},
          .end_of_text = 3,
          .pieces = piece_rule::llama3,
          .whole_pieces = true,
          .by_number = false};
}

}  // namespace

TEST_CASE("bpe table: the text reads back as the same table", "[data][fast]") {
  const auto read = read_table(table_text(example()), "x");
  REQUIRE(read);
  CHECK(*read == example());
  bpe_table other = example();
  other.end_of_text.reset(), other.merges.clear(), other.specials.clear(), other.pieces = piece_rule::gpt2;
  other.by_number = true, other.whole_pieces = false;
  const auto again = read_table(table_text(other), "x");
  REQUIRE(again);
  CHECK(*again == other);
  CHECK(table_text(other) != table_text(example()));
}

TEST_CASE("bpe table: lines that make no sense are refused", "[data][fast]") {
  const std::string text = table_text(example());
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    REQUIRE(text.find(from) != std::string::npos);
    const auto read = read_table(changed.replace(changed.find(from), from.size(), to), "x");
    return !read && read.error().code == errc::corrupt;
  };
  CHECK(refused("pieces llama3", "pieces llama4"));
  CHECK(refused("whole_pieces 1", "whole_pieces 2"));
  CHECK(refused("tokens 6", "tokens 7"));
  CHECK(refused("tokens 6", "tokens 5"));
  CHECK(refused("tokens 6", "tokens 18446744073709551615"));
  CHECK(refused("6162", "616"));
  CHECK(refused("6162", "61g2"));
  CHECK(refused("\nmerges 1", "\nmerges -1"));
  CHECK(refused("0 1\n", "0 1 2\n"));
  CHECK_FALSE(read_table("", "x"));
}

}  // namespace causeway::data
