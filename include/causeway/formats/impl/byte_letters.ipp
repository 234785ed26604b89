// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_IMPL_BYTE_LETTERS_IPP
#define CAUSEWAY_FORMATS_IMPL_BYTE_LETTERS_IPP

// Bodies of formats/byte_letters.hpp.

#include <causeway/formats/byte_letters.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats { namespace detail {

/// The code point of each byte's letter; all are below U+0144.
constexpr std::array<std::uint16_t, 256> letter_codes() {
  std::array<std::uint16_t, 256> codes{};
  std::uint16_t next = 0x100;
  for (std::size_t b = 0; b < 256; ++b) {
    const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    codes[b] = printable ? static_cast<std::uint16_t>(b) : next++;
  }
  return codes;
}

/// The byte of each code point, or -1.
constexpr std::array<int, 0x144> bytes_of_codes() {
  std::array<int, 0x144> bytes{};
  for (int& b : bytes) b = -1;
  const auto codes = letter_codes();
  for (std::size_t b = 0; b < 256; ++b) bytes[codes[b]] = static_cast<int>(b);
  return bytes;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::formats::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

CAUSEWAY_DECL std::string letters_of(std::string_view bytes) {
  constexpr auto codes = detail::letter_codes();
  std::string text;
  for (const char c : bytes) {
    const unsigned code = codes[static_cast<unsigned char>(c)];
    if (code >= 0x80) text += static_cast<char>(0xC0U | (code >> 6U));
    text += static_cast<char>(code >= 0x80 ? 0x80U | (code & 0x3FU) : code);
  }
  return text;
}

CAUSEWAY_DECL std::optional<std::string> bytes_of_letters(std::string_view letters) {
  constexpr auto bytes = detail::bytes_of_codes();
  std::string found;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    unsigned code = static_cast<unsigned char>(letters[i]);
    if (code >= 0x80) {
      const unsigned low = i + 1 < letters.size() ? static_cast<unsigned char>(letters[++i]) : 0U;
      if ((code & 0xE0U) != 0xC0U || (low & 0xC0U) != 0x80U) return std::nullopt;
      code = ((code & 0x1FU) << 6U) | (low & 0x3FU);
      if (code < 0x80) return std::nullopt;
    }
    if (code >= bytes.size() || bytes[code] < 0) return std::nullopt;
    found += static_cast<char>(bytes[code]);
  }
  return found;
}

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#endif  // CAUSEWAY_FORMATS_IMPL_BYTE_LETTERS_IPP
