// SPDX-License-Identifier: Apache-2.0
#include <causeway/data/unicode_classes.hpp>

#include <cstdint>
#include <string>

#include "support/catch.hpp"

namespace causeway::data {
namespace {

template <class Ranges>
bool sorted_and_apart(const Ranges& ranges) {
  std::uint32_t least = 0;
  for (const auto& r : ranges) {
    if (r.first < least || r.last < r.first) return false;
    least = r.last + 2;  // neighbours would be one range
  }
  return ranges.back().last <= 0x10FFFF;
}

template <class Ranges>
std::uint32_t count(const Ranges& ranges) {
  std::uint32_t sum = 0;
  for (const auto& r : ranges) sum += r.last - r.first + 1;
  return sum;
}

}  // namespace

TEST_CASE("unicode classes: ranges are sorted, apart, and as many characters as Unicode 16 has", "[data][fast]") {
  CHECK(std::string{unicode_version} == "16.0.0");
  CHECK(sorted_and_apart(detail::letter_ranges));
  CHECK(sorted_and_apart(detail::number_ranges));
  CHECK(sorted_and_apart(detail::space_ranges));
  CHECK(count(detail::letter_ranges) == 141028);  // as tokenizers 0.23 and tiktoken 0.14 find, character by character
  CHECK(count(detail::number_ranges) == 1911);
  CHECK(count(detail::space_ranges) == 25);
}

TEST_CASE("unicode classes: characters whose class is known", "[data][fast]") {
  using enum character_class;
  for (const std::uint32_t c :
       {0x41U, 0x7AU, 0xAAU, 0xB5U, 0xE9U, 0x17FU, 0x416U, 0x5D0U, 0x4E00U, 0xAC00U, 0x1C89U, 0x20000U}) {
    CHECK(class_of_character(c) == letter);
  }
  for (const std::uint32_t c : {0x30U, 0x39U, 0xB2U, 0xBDU, 0x661U, 0x2167U, 0x3007U, 0x1D7D8U}) {
    CHECK(class_of_character(c) == number);
  }
  for (const std::uint32_t c : {0x09U, 0x0DU, 0x20U, 0x85U, 0xA0U, 0x1680U, 0x2003U, 0x2028U, 0x3000U}) {
    CHECK(class_of_character(c) == space);
  }
  // Marks, joiners, symbols, controls, private use, and numbers that no character has.
  for (const std::uint32_t c :
       {0x00U, 0x1CU, 0x21U, 0x40U, 0x5BU, 0x300U, 0x94DU, 0x200BU, 0x1F600U, 0xE000U, 0xFFFDU, 0x110000U, 0xFFFFFFFFU}) {
    CHECK(class_of_character(c) == other);
  }
}

}  // namespace causeway::data
