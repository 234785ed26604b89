// SPDX-License-Identifier: Apache-2.0
#include <causeway/core/table_text.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace causeway {

TEST_CASE("table text: lines without their comments, and where they stand", "[core][fast]") {
  std::vector<std::pair<std::size_t, std::string>> lines;
  const auto outcome = text::for_each_line("a, b\n\n# c\n  d # e\r\nf", "table",
                                           [&](std::string_view line, const text::place& at) -> result<void> {
                                             lines.emplace_back(at.line, line);
                                             return {};
                                           });
  REQUIRE(outcome);
  CHECK(lines == std::vector<std::pair<std::size_t, std::string>>{{1, "a, b"}, {4, "d"}, {5, "f"}});
}

TEST_CASE("table text: the first error ends it, and names file and line", "[core][fast]") {
  const auto outcome = text::for_each_line("1\nx\ny\n", "table", [](std::string_view line, const text::place& at) {
    const auto number = text::number_from<std::uint32_t>(line, at, "the count");
    return number ? result<void>{} : result<void>{number.error()};
  });
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == errc::bad_text);
  CHECK(outcome.error().where == "table, line 2");
  CHECK(outcome.error().message == "the count is not a number: \"x\"");
}

TEST_CASE("table text: fields are trimmed, and empty ones count", "[core][fast]") {
  CHECK(text::split(" a ,\tb,, c d\r", ',') == std::vector<std::string_view>{"a", "b", "", "c d"});
  CHECK(text::split("", ',') == std::vector<std::string_view>{""});
}

TEST_CASE("table text: a number takes the whole field, and is in its range", "[core][fast]") {
  const std::string name = "table";
  const text::place at{name, 7};
  CHECK(*text::number_from<double>("1.5e3", at, "it") == 1500);
  for (const char* wrong : {"", "1 2", "1x", "x", "nan", "inf", "1e999"}) {
    CAPTURE(wrong);
    CHECK_FALSE(text::number_from<double>(wrong, at, "it"));
  }
  CHECK_FALSE(text::number_from<std::uint32_t>("-1", at, "it"));
  CHECK_FALSE(text::number_from<std::uint32_t>("4294967296", at, "it"));
  CHECK(*text::number_between("2", 2, 3, at, "it") == 2);
  CHECK(text::number_between("4", 2, 3, at, "it").error().message == "it is out of range: 4");
}

TEST_CASE("table text: a text that is too long is refused before it is looked at", "[core][fast]") {
  const std::string longer(text::longest_table + 1, '\n');
  const auto outcome =
      text::for_each_line(longer, "table", [](std::string_view, const text::place&) { return result<void>{}; });
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == errc::too_large);
}

}  // namespace causeway
