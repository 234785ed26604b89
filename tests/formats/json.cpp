// SPDX-License-Identifier: Apache-2.0
#include <causeway/formats/json.hpp>

#include <string>

#include "support/catch.hpp"

namespace causeway::formats {
namespace {

using Catch::Matchers::Contains;
using kind = json_value::kind;

error refusal_of(const std::string& text, const json_limits& limits = {}) {
  const auto read = parse_json(text, "x.json", limits);
  REQUIRE_FALSE(read);
  CHECK(read.error().where == "x.json");
  return read.error();
}

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

}  // namespace

TEST_CASE("json: a text becomes the tree that it describes", "[formats][fast]") {
  const auto read = parse_json(R"({"a": [1, -2.5, true, null], "b": {"c": "\u00e9\n"}, "big": 18446744073709551615})", "x");
  REQUIRE(read);
  REQUIRE(read->is_object());
  const json_value& list = *read->find("a");
  REQUIRE(list.items.size() == 4);
  CHECK(list.items[0].is(kind::integer));
  CHECK(list.items[0].integer == 1);
  CHECK(list.items[1].number == -2.5);
  CHECK(list.items[2].boolean);
  CHECK(list.items[3].is(kind::null));
  CHECK(read->find("b")->find("c")->text == "\xC3\xA9\n");
  CHECK(read->find("big")->is(kind::number));  // no integer of ours
  CHECK(read->find("d") == nullptr);
}

TEST_CASE("json: hostile texts are refused with what is wrong", "[formats][fast]") {
  CHECK(refusal_of("").code == errc::corrupt);
  CHECK(refusal_of("{\"a\":").code == errc::corrupt);
  CHECK(refusal_of("{} x").code == errc::corrupt);
  CHECK(refusal_of("\"\xC3\"").code == errc::corrupt);  // no UTF-8
  CHECK(refusal_of("1e999").code == errc::corrupt);
  CHECK_THAT(refusal_of(R"({"a":1,"b":2,"a":3})").message, Contains("'a' twice"));
  CHECK_THAT(refusal_of(nested(33)).message, Contains("deeper than 32"));
  CHECK(parse_json(nested(32), "x"));
  CHECK_THAT(refusal_of(nested(1'000'000)).message, Contains("deeper"));
  CHECK(refusal_of("[1,2,3]", {.bytes = 6}).code == errc::too_large);
  CHECK(refusal_of("[1,2,3]", {.values = 3}).code == errc::too_large);
  CHECK(parse_json("[1,2,3]", "x", {.bytes = 7, .values = 4}));
}

TEST_CASE("json: what is quoted reads back", "[formats][fast]") {
  const std::string text{"\"\\/\b\f\n\r\t\x01\x1F\x7F\xC3\xA9", 13};
  CHECK(json_quoted(text) == "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7F\xC3\xA9\"");
  const auto read = parse_json(json_quoted(text), "x");
  REQUIRE(read);
  CHECK(read->text == text);
}

TEST_CASE("json: numbers are short and read back", "[formats][fast]") {
  CHECK(json_number(1e-5F) == "1e-05");
  CHECK(json_number(32.0F) == "32.0");
  CHECK(json_number(0.1F) == "0.1");
}

}  // namespace causeway::formats
