// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_WRITTEN_PAGE_HPP
#define CAUSEWAY_TESTS_SUPPORT_WRITTEN_PAGE_HPP

// Pages of docs/ that a test writes, and holds to what the code says.

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "support/catch.hpp"

namespace support {

/// `test`: __FILE__ of the test. With CAUSEWAY_WRITE_MATRIX in the environment the page is written first.
inline void check_written_page(const std::string& test, const std::string& page, const std::string& expected) {
  const std::string path = test.substr(0, test.rfind("tests/")) + page;
  if (std::getenv("CAUSEWAY_WRITE_MATRIX") != nullptr) std::ofstream{path} << expected;
  std::ifstream file{path};
  std::ostringstream text;
  text << file.rdbuf();
  INFO("run this test with CAUSEWAY_WRITE_MATRIX=1 to write " << path);
  CHECK(text.str() == expected);
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_WRITTEN_PAGE_HPP
