// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_BYTE_LETTERS_HPP
#define CAUSEWAY_FORMATS_BYTE_LETTERS_HPP

// GPT-2's letter for each byte, by which files of byte-level tokenizers name tokens: the byte itself where it is printable
// in Latin-1, else one of the letters from U+0100 on, in order. Each byte has one letter, and back.

#include <causeway/config/config.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

/// A letter for each byte, in UTF-8.
CAUSEWAY_DECL [[nodiscard]] std::string letters_of(std::string_view bytes);

/// The inverse; nothing if a character is no such letter.
CAUSEWAY_DECL [[nodiscard]] std::optional<std::string> bytes_of_letters(std::string_view letters);

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#ifndef CAUSEWAY_COMPILED
#include <causeway/formats/impl/byte_letters.ipp>
#endif

#endif  // CAUSEWAY_FORMATS_BYTE_LETTERS_HPP
