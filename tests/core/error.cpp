// SPDX-License-Identifier: Apache-2.0
#include <causeway/core/error.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "support/catch.hpp"

using namespace causeway;

TEST_CASE("error: text is one line with place, message and code", "[core][fast]") {
  CHECK(fail(errc::corrupt, "run/step-000120.ckpt", "checksum differs; use an older file").text() ==
        "run/step-000120.ckpt: checksum differs; use an older file [corrupt]");
  CHECK(fail(errc::timeout, "", "peer 2 was silent").text() == "peer 2 was silent [timeout]");
}

TEST_CASE("error: every code has a name of its own", "[core][fast]") {
  // docs/reference/errors.md and files written by older versions know these by number.
  CHECK(static_cast<int>(errc::invalid_argument) == 1);
  CHECK(static_cast<int>(errc::device_lost) == 22);
  std::set<std::string> names;
  for (std::uint16_t code = 1; code <= 22; ++code) {
    const std::string name{to_string(static_cast<errc>(code))};
    CHECK(name != "unknown");
    names.insert(name);
  }
  CHECK(names.size() == 22);
  CHECK(to_string(static_cast<errc>(999)) == "unknown");
}

TEST_CASE("error: the reference page lists every code once, in order, with its name", "[core][fast]") {
  const auto page = std::filesystem::path{__FILE__}.parent_path() / "../../docs/reference/errors.md";
  std::ifstream in{page};
  REQUIRE(in);
  std::uint16_t code = 0;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("| ") || line.starts_with("| number")) continue;
    ++code;
    const std::string start =
        "| " + std::to_string(code) + " | `" + std::string{to_string(static_cast<errc>(code))} + "` |";
    INFO(line);
    CHECK(line.starts_with(start));
  }
  CHECK(to_string(static_cast<errc>(code)) != "unknown");
  CHECK(to_string(static_cast<errc>(code + 1)) == "unknown");  // nothing is left out at the end
}
