// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_TEST_SOURCE_HPP
#define CAUSEWAY_TESTS_SUPPORT_TEST_SOURCE_HPP

// The text of other tests, for those that hold pages to what is tested.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace support {

/// Of the elastic pipelines' test `subject` + `of`.
inline std::string test_source(const std::string& subject, const char* of) {
  const auto tests = std::filesystem::path{__FILE__}.parent_path().parent_path();
  std::ifstream source{tests / "parallel/elastic" / (subject + of)};
  return {std::istreambuf_iterator<char>{source}, {}};
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_TEST_SOURCE_HPP
