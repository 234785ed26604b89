// SPDX-License-Identifier: Apache-2.0
#include <causeway/core/error.hpp>

#include <cstdint>
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
