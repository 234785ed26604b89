// SPDX-License-Identifier: Apache-2.0
#include <causeway/data/token_stream.hpp>

#include "support/catch.hpp"

#include <numeric>
#include <vector>

namespace cw = causeway;
namespace data = causeway::data;

namespace {

std::vector<std::int32_t> numbers(std::size_t count, std::int32_t first = 0) {
  std::vector<std::int32_t> v(count);
  std::iota(v.begin(), v.end(), first);
  return v;
}

std::vector<std::int32_t> all_of(const data::token_stream& s) {
  std::vector<std::int32_t> v(static_cast<std::size_t>(s.size()));
  s.read(0, v);
  return v;
}

}  // namespace

TEST_CASE("token stream: gives back narrow and wide tokens", "[data][fast]") {
  for (const std::int32_t first : {0, 65000, 100'000}) {
    const auto tokens = numbers(1000, first);
    const data::token_stream stream{tokens};
    CHECK(stream.size() == 1000);
    CHECK(all_of(stream) == tokens);
    std::vector<std::int32_t> some(3);
    stream.read(997, some);
    CHECK(some == numbers(3, first + 997));
  }
  CHECK(data::token_stream{}.size() == 0);
}

TEST_CASE("token stream: slices share the tokens and are cut to what exists", "[data][fast]") {
  data::token_stream slice;
  {
    const data::token_stream stream{numbers(100)};
    slice = stream.slice(10, 50).slice(5, 5);
    CHECK(stream.slice(90, 50).size() == 10);
    CHECK(stream.slice(200, 5).size() == 0);
  }
  CHECK(all_of(slice) == numbers(5, 15));  // outlives the stream it came from
}

TEST_CASE("token stream: the split is one cut; the last part is for validation", "[data][fast]") {
  const data::token_stream stream{numbers(1000)};
  const auto split = data::split_fraction(stream, 0.1);
  CHECK(all_of(split.train) == numbers(900));
  CHECK(all_of(split.validation) == numbers(100, 900));
  CHECK(data::split_fraction(stream, 0.0).validation.size() == 0);
  CHECK(data::split_fraction(data::token_stream{numbers(7)}, 0.5).validation.size() == 3);
}

TEST_CASE("token stream: the hash depends on the tokens and their order, not on how they are stored", "[data][fast]") {
  auto tokens = numbers(10'000);
  const data::token_stream narrow{tokens};
  const auto wide_tokens = std::make_shared<std::vector<std::int32_t>>(tokens);
  const data::token_stream wide{wide_tokens, std::as_bytes(std::span{*wide_tokens}).data(), 10'000,
                                data::token_width::four};
  CHECK(narrow.content_hash() == wide.content_hash());
  CHECK(narrow.content_hash() != narrow.slice(0, 9999).content_hash());
  std::swap(tokens[9998], tokens[9999]);
  CHECK(data::token_stream{tokens}.content_hash() != narrow.content_hash());
}

TEST_CASE("token stream: a token outside the vocabulary is found, with its place", "[data][fast]") {
  auto tokens = std::vector<std::int32_t>(10'000, 5);
  tokens[7777] = 256;
  const data::token_stream stream{tokens};
  CHECK(stream.check_vocabulary(257));
  const auto outcome = stream.check_vocabulary(256);
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == cw::errc::bad_text);
  CHECK(outcome.error().where == "token 7777");
  tokens[7777] = -1;
  CHECK_FALSE(data::token_stream{tokens}.check_vocabulary(257));
}

TEST_CASE("token stream: streams of any widths are read as one, across their ends", "[data][fast]") {
  const std::vector<data::token_stream> parts{data::token_stream{numbers(10)}, data::token_stream{},
                                              data::token_stream{numbers(200'000, 10)}.slice(5, 20),
                                              data::token_stream{numbers(0)}, data::token_stream{numbers(3, 100)}};
  const auto all = data::token_stream::joined(parts);
  std::vector<std::int32_t> expected = numbers(10);
  for (const std::int32_t t : numbers(20, 15)) expected.push_back(t);
  for (const std::int32_t t : numbers(3, 100)) expected.push_back(t);
  CHECK(all_of(all) == expected);
  CHECK(all.content_hash() == data::token_stream{expected}.content_hash());
  for (std::int64_t first = 0; first <= all.size(); ++first) {
    for (std::int64_t count = 0; first + count <= all.size(); ++count) {
      std::vector<std::int32_t> some(static_cast<std::size_t>(count));
      all.read(first, some);
      REQUIRE(some == std::vector<std::int32_t>(expected.begin() + first, expected.begin() + first + count));
      REQUIRE(all_of(all.slice(first, count)) == some);
    }
  }
  const std::vector<data::token_stream> again{all.slice(8, 5), all.slice(31, 2)};
  CHECK(all_of(data::token_stream::joined(again)) == std::vector<std::int32_t>{8, 9, 15, 16, 17, 101, 102});
  CHECK(data::token_stream::joined({}).size() == 0);
}
