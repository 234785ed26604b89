// SPDX-License-Identifier: Apache-2.0
#include <causeway/data/bpe_tokenizer.hpp>

#include <causeway/core/rng.hpp>
#include <causeway/data/bpe_trainer.hpp>
#include <causeway/io/memory_storage.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace cw = causeway;
namespace data = causeway::data;

namespace {

using ids = std::vector<std::int32_t>;

// 256 "th", 257 "the", 258 " the", 259 "in", 260 "aa"
const std::vector<data::bpe_merge> merges{{'t', 'h'}, {256, 'e'}, {' ', 257}, {'i', 'n'}, {'a', 'a'}};

data::bpe_tokenizer example() { return data::bpe_tokenizer::make(merges, true).value(); }

ids encode(data::bpe_tokenizer& tokenizer, std::string_view text) {
  ids out;
  tokenizer.encode(text, out);
  return out;
}

std::string decode(const data::bpe_tokenizer& tokenizer, const ids& tokens) {
  std::string out;
  REQUIRE(tokenizer.decode(tokens, out));
  return out;
}

// What a changed file must look like to get past the checksum.
std::string signed_again(const std::string& text) {
  const std::string body = text.substr(0, text.rfind("checksum "));
  return body + data::detail::checksum_line(body);
}

}  // namespace

TEST_CASE("bpe tokenizer: earliest merges first, all places from the left", "[data][fast]") {
  auto t = example();
  CHECK(encode(t, "the thin the") == ids{257, ' ', 256, 259, 258});
  CHECK(encode(t, "aaaaa") == ids{260, 260, 'a'});
  CHECK(encode(t, "") == ids{});
  CHECK(encode(t, "the") == ids{257});  // from the memory of words, the second time
  CHECK(t.token_bytes(258) == " the");
  // Where two merges want the same byte, the earlier one has it.
  auto left = data::bpe_tokenizer::make(std::vector<data::bpe_merge>{{'a', 'b'}, {'b', 'c'}}, false).value();
  CHECK(encode(left, "abc") == ids{256, 'c'});
  auto right = data::bpe_tokenizer::make(std::vector<data::bpe_merge>{{'b', 'c'}, {'a', 'b'}}, false).value();
  CHECK(encode(right, "abc") == ids{'a', 256});
}

TEST_CASE("bpe tokenizer: merges do not cross pieces", "[data][fast]") {
  const std::vector<data::bpe_merge> crossing{{'a', ' '}, {'a', '1'}};
  auto t = data::bpe_tokenizer::make(crossing, false).value();
  CHECK(encode(t, "a b a1") == ids{'a', ' ', 'b', ' ', 'a', '1'});
}

TEST_CASE("bpe tokenizer: any bytes come back exactly", "[data][fast]") {
  auto t = example();
  cw::rng random{17};
  for (int i = 0; i < 200; ++i) {
    std::string text;
    for (std::uint64_t n = random.below(400); n-- > 0;) {
      // Half of the bytes from the merges' own letters, so that merges happen.
      text += random.below(2) == 0 ? "th eina"[random.below(7)] : static_cast<char>(random.below(256));
    }
    REQUIRE(decode(t, encode(t, text)) == text);
  }
  for (const char* text :
       {"Grüße, 東京! مرحبا بالعالم", "Привет, мир… 👩‍👩‍👧", "e\u0301 ≠ é", "\r\n\t\v \u00A0"}) {
    CHECK(decode(t, encode(t, text)) == text);
  }
}

TEST_CASE("bpe tokenizer: without merges it is the byte tokenizer", "[data][fast]") {
  data::bpe_tokenizer t;
  CHECK(t.vocabulary() == 256);
  CHECK_FALSE(t.end_of_text());
  CHECK(encode(t,
               "\xFF"
               "a\n") == ids{255, 'a', '\n'});
}

TEST_CASE("bpe tokenizer: end of text is the last token, never comes from text, and has no bytes", "[data][fast]") {
  auto t = example();
  CHECK(t.vocabulary() == 262);
  REQUIRE(t.end_of_text() == 261);
  CHECK(decode(t, {'a', 261, 'b'}) == "ab");
  std::string out;
  CHECK(t.decode(ids{262}, out).error().code == cw::errc::invalid_argument);
  CHECK(t.decode(ids{-1}, out).error().code == cw::errc::invalid_argument);
  CHECK_FALSE(data::bpe_tokenizer::make(merges, false).value().decode(ids{261}, out));
}

TEST_CASE("bpe tokenizer: merges that make no sense are refused", "[data][fast]") {
  using list = std::vector<data::bpe_merge>;
  const auto code = [](const list& m) { return data::bpe_tokenizer::make(m, false).error().code; };
  CHECK(code(list{{256, 'a'}}) == cw::errc::corrupt);
  CHECK(code(list{{'a', -1}}) == cw::errc::corrupt);
  CHECK(code(list{{'a', 'b'}, {'a', 'b'}}) == cw::errc::corrupt);
  list doubling{{'a', 'a'}};  // would be 2^60 bytes
  for (std::int32_t i = 0; i < 60; ++i) doubling.push_back({256 + i, 256 + i});
  CHECK(code(doubling) == cw::errc::corrupt);
}

TEST_CASE("bpe tokenizer: saved and loaded, it is the same", "[data][fast]") {
  cw::io::memory_storage storage;
  const auto t = example();
  REQUIRE(t.save(storage, "run/tokenizer.txt"));
  auto loaded = data::bpe_tokenizer::load(storage, "run/tokenizer.txt");
  REQUIRE(loaded);
  CHECK(loaded->hash() == t.hash());
  CHECK(loaded->vocabulary() == t.vocabulary());
  CHECK(encode(*loaded, "the thin") == ids{257, ' ', 256, 259});
  CHECK(data::bpe_tokenizer::load(storage, "run/none").error().code == cw::errc::not_found);
  CHECK(data::bpe_tokenizer::make(merges, false).value().hash() != t.hash());
}

TEST_CASE("bpe tokenizer: the file is plain text", "[data][fast]") {
  const std::string text = example().to_text();
  CHECK(text.starts_with("causeway-bpe 1\nend_of_text 1\nmerges 5\n116 104\n256 101\n32 257\n105 110\n97 97\nchecksum "));
}

TEST_CASE("bpe tokenizer: every flipped bit and every prefix of a file is refused", "[data][fast]") {
  const std::string good = example().to_text();
  REQUIRE(data::bpe_tokenizer::from_text(good, "t"));
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    INFO("bit " << bit);
    CHECK_FALSE(data::bpe_tokenizer::from_text(bad, "t"));
  }
  for (std::size_t n = 0; n < good.size(); ++n) CHECK_FALSE(data::bpe_tokenizer::from_text(good.substr(0, n), "t"));
  CHECK_FALSE(data::bpe_tokenizer::from_text(good + "\n", "t"));
}

TEST_CASE("bpe tokenizer: a file that was changed and signed again is checked line by line", "[data][fast]") {
  const std::string good = example().to_text();
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    const auto outcome = data::bpe_tokenizer::from_text(signed_again(text), "t");
    return outcome ? cw::errc{} : outcome.error().code;
  };
  CHECK(changed("97 97", "97 98") == cw::errc{});
  CHECK(changed("merges 5", "merges 4") == cw::errc::corrupt);
  CHECK(changed("merges 5", "merges 6") == cw::errc::corrupt);
  CHECK(changed("merges 5", "merges 99999999999999999999") == cw::errc::corrupt);
  CHECK(changed("256 101", "300 101") == cw::errc::corrupt);
  CHECK(changed("97 97", "97\n97") == cw::errc::corrupt);
  CHECK(changed("end_of_text 1", "end_of_text 2") == cw::errc::corrupt);
  CHECK(changed("bpe 1", "bpe 3") == cw::errc::version_mismatch);
}

TEST_CASE("bpe tokenizer: a text that is cut as data::where_to_cut says has the tokens of the whole", "[data][fast]") {
  const std::string all =
      "one's\nit's 'round\n\n  two\r\n\r\nthree four five  "
      "\n'em\n1234\n12\n\u3000日本\n語語\n!!\n?\n\u00A0x\nüber\n\n\n\ty \n z\n";
  std::string text;
  cw::rng random{7, 1};
  const std::string_view view{all};
  for (int i = 0; i < 3000; ++i) {  // lines of it in any order, cut anywhere between characters
    std::size_t at = random.below(all.size());
    while (at < all.size() && (static_cast<unsigned char>(all[at]) & 0xC0U) == 0x80U) ++at;
    std::size_t end = std::min(all.size(), at + random.below(12));
    while (end < all.size() && (static_cast<unsigned char>(all[end]) & 0xC0U) == 0x80U) ++end;
    text += view.substr(at, end - at);
  }
  const auto table = data::train_bpe(text, {.merges = 200}).value().table();
  for (const auto rule : {data::piece_rule::causeway, data::piece_rule::gpt2, data::piece_rule::llama3}) {
    auto ours = data::train_bpe(text, {.merges = 200}).value();
    if (rule != data::piece_rule::causeway) {
      auto other = table;
      other.pieces = rule;
      ours = data::bpe_tokenizer::make(other).value();
    }
    std::vector<std::int32_t> whole, parts;
    ours.encode(text, whole);
    int cuts = 0;
    for (std::string_view left = text; !left.empty(); ++cuts) {
      const std::size_t end = data::where_to_cut(left, 1);
      ours.encode(left.substr(0, end), parts);
      left.remove_prefix(end);
    }
    CHECK(cuts > 300);
    CHECK((parts == whole));
  }
}
