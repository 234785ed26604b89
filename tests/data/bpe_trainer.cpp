// SPDX-License-Identifier: Apache-2.0
#include <causeway/data/bpe_trainer.hpp>

#include <causeway/core/rng.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace cw = causeway;
namespace data = causeway::data;

namespace {

using merge_list = std::vector<data::bpe_merge>;

merge_list merges_of(const data::bpe_tokenizer& t) { return {t.merges().begin(), t.merges().end()}; }

merge_list trained(std::string_view text, const data::bpe_options& options) {
  return merges_of(data::train_bpe(text, options).value());
}

// The definition, word for word: count all pairs anew before every merge.
merge_list by_definition(std::string_view text, const data::bpe_options& options) {
  std::vector<std::vector<std::int32_t>> words;
  data::for_each_piece(text, [&](std::string_view piece) {
    words.emplace_back();
    for (const char c : piece) words.back().push_back(static_cast<unsigned char>(c));
  });
  merge_list merges;
  while (merges.size() < options.merges) {
    std::map<data::bpe_merge, std::int64_t> counts;
    for (const auto& w : words) {
      for (std::size_t i = 0; i + 1 < w.size(); ++i) ++counts[{w[i], w[i + 1]}];
    }
    // The first of the largest: the map goes by (left, right).
    const auto best =
        std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    if (best == counts.end() || best->second < options.minimum_count) break;
    const data::bpe_merge pair = best->first;
    const auto token = static_cast<std::int32_t>(256 + merges.size());
    for (auto& w : words) {
      std::vector<std::int32_t> joined;
      for (std::size_t i = 0; i < w.size(); ++i) {
        const bool here = i + 1 < w.size() && w[i] == pair.left && w[i + 1] == pair.right;
        joined.push_back(here ? token : w[i]);
        i += here ? 1 : 0;
      }
      w = std::move(joined);
    }
    merges.push_back(pair);
  }
  return merges;
}

std::string random_text(std::uint64_t seed, std::size_t length) {
  cw::rng random{seed};
  const std::uint64_t kinds = 2 + random.below(6);
  std::string text;
  while (text.size() < length) text += "a bcde\n"[random.below(kinds)];
  return text;
}

}  // namespace

TEST_CASE("bpe trainer: golden merges of a tiny text", "[data][fast]") {
  // Pieces: low ×1, " low" ×4, " lower" ×2, " newest" ×6, " widest" ×3 (Sennrich's example, written as text).
  const std::string text = "low low low low low lower lower newest newest newest newest newest newest widest widest widest";
  CHECK(trained(text, {.merges = 6}) == merge_list{{'e', 's'}, {256, 't'}, {'l', 'o'}, {258, 'w'}, {' ', 'n'}, {' ', 259}});
  const auto t = data::train_bpe(text, {.merges = 4, .end_of_text = false}).value();
  CHECK(t.token_bytes(257) == "est");
  CHECK(t.token_bytes(259) == "low");
  CHECK(t.vocabulary() == 260);
}

TEST_CASE("bpe trainer: gives what the definition gives", "[data][fast]") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const std::string text = random_text(seed, 50 + 20 * seed);
    INFO("seed " << seed);
    const data::bpe_options options{.merges = 40, .minimum_count = 1 + static_cast<std::int64_t>(seed % 3)};
    REQUIRE(trained(text, options) == by_definition(text, options));
  }
}

TEST_CASE("bpe trainer: pairs that overlap themselves", "[data][fast]") {
  const data::bpe_options options{.merges = 5};
  for (const char* text : {"aaaaa aaaa aaa", "aaaaaaaaaaaaaaaaaaaa", "abababab babab", "aabaabaab"}) {
    CHECK(trained(text, options) == by_definition(text, options));
  }
}

TEST_CASE("bpe trainer: only counts matter, not the order of documents", "[data][fast]") {
  const std::string a = random_text(1, 3000) + "\n";
  const std::string b = random_text(2, 3000) + "\n";
  const auto both = data::train_bpe(std::vector<data::document>{{"a", a}, {"b", b}}, {.merges = 50}).value();
  const auto swapped = data::train_bpe(std::vector<data::document>{{"b", b}, {"a", a}}, {.merges = 50}).value();
  CHECK(both.hash() == swapped.hash());
  CHECK(both.hash() == data::train_bpe(std::vector<data::document>{{"a", a}, {"b", b}}, {.merges = 50}).value().hash());
}

TEST_CASE("bpe trainer: stops when no pair is frequent enough; no text is an error", "[data][fast]") {
  CHECK(trained("abc abc", {.merges = 100, .minimum_count = 3}).empty());
  CHECK(trained("abc abc", {.merges = 100, .minimum_count = 2}) == merge_list{{'a', 'b'}, {256, 'c'}});
  CHECK(trained("abc abc", {.merges = 0}).empty());
  CHECK(data::train_bpe("").error().code == cw::errc::bad_text);
}

TEST_CASE("bpe trainer: what it trained encodes its text in fewer tokens, and exactly", "[data][fast]") {
  std::string text;
  cw::rng random{5};
  const std::vector<std::string> words{"peer", "causeway", "gradient", "größe", "山水", "42", "don't", "\n"};
  for (int i = 0; i < 5000; ++i) text += words[random.below(words.size())] + (random.below(9) == 0 ? ", " : " ");
  auto t = data::train_bpe(text, {.merges = 200}).value();
  std::vector<std::int32_t> tokens;
  t.encode(text, tokens);
  std::string back;
  REQUIRE(t.decode(tokens, back));
  CHECK(back == text);
  CHECK(tokens.size() * 3 < text.size());
}
