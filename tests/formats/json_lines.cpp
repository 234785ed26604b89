// SPDX-License-Identifier: Apache-2.0
#include <causeway/formats/document_reader.hpp>

#include "support/catch.hpp"

#include <string>
#include <vector>

namespace cw = causeway;
namespace formats = causeway::formats;

namespace {

std::vector<std::string> all_of(const std::string& text, const std::string& field = "text") {
  formats::json_lines lines{text, "d.jsonl", field};
  std::vector<std::string> all;
  for (;;) {
    const auto line = lines.next().value();
    if (!line) return all;
    all.push_back(*line);
  }
}

cw::error error_of(const std::string& text) {
  formats::json_lines lines{text, "d.jsonl", "text"};
  for (;;) {
    const auto line = lines.next();
    if (!line) return line.error();
    REQUIRE(*line);
  }
}

using list = std::vector<std::string>;

}  // namespace

TEST_CASE("json lines: one text for each line, with or without an end of the last one", "[formats][fast]") {
  CHECK(all_of("{\"text\": \"one\"}\n{\"id\": 3, \"text\": \"two\\nlines \\u00e9\", \"x\": {\"text\": 1}}\n") ==
        list{"one", "two\nlines é"});
  CHECK(all_of("{\"text\":\"a\"}\r\n\r\n  \n\t{\"text\":\"\"} \r\n{\"text\":\"c\"}") == list{"a", "", "c"});
  CHECK(all_of("").empty());
  CHECK(all_of("\n\n").empty());
  CHECK(all_of("{\"content\":\"a\",\"text\":\"b\"}", "content") == list{"a"});
}

TEST_CASE("json lines: a bad line is named by its number", "[formats][fast]") {
  const auto says = [](const cw::error& e, const char* where, const char* what) {
    INFO(e.text());
    CHECK(e.code == cw::errc::corrupt);
    CHECK(e.where == where);
    CHECK(e.message.find(what) != std::string::npos);
  };
  const std::string good = "{\"text\":\"a\"}\n\n";
  says(error_of(good + "{\"text\":\"b\""), "d.jsonl, line 3", "no JSON");
  says(error_of(good + "{\"text\":\"b\"} {\"text\":\"c\"}"), "d.jsonl, line 3", "no JSON");
  says(error_of(good + "[\"text\"]"), "d.jsonl, line 3", "no JSON object");
  says(error_of("{\"content\":\"b\",\"id\":1}"), "d.jsonl, line 1", "no 'text' (it has: content, id)");
  says(error_of("{\"text\":[\"b\"]}"), "d.jsonl, line 1", "is no text");
  says(error_of("{\"text\":\"a\",\"text\":\"b\"}"), "d.jsonl, line 1", "twice");
  says(error_of("{\"text\":\"\xFF\"}"), "d.jsonl, line 1", "no JSON");
  std::string wide = "{\"text\":\"a\",\"x\":[0";
  for (int i = 0; i < 70'000; ++i) wide += ",0";
  CHECK(error_of(wide + "]}").code == cw::errc::too_large);
}

TEST_CASE("json lines: position and line follow what was read", "[formats][fast]") {
  const std::string text = "\n{\"text\":\"a\"}\n{\"text\":\"b\"}";
  formats::json_lines lines{text, "d.jsonl", "text"};
  REQUIRE(lines.next());
  CHECK(lines.line() == 2);
  CHECK(lines.position() == 14);
  REQUIRE(lines.next());
  CHECK(lines.position() == text.size());
}
