#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes include/causeway/data/unicode_classes.hpp: which characters are letters, numbers and white space.

    tools/unicode_classes.py                 # with the Unicode version that the reference tokenizers have

needs the package unicodedata2 in that version (`pip install unicodedata2==16.0.0`), or a Python that has it.
"""
import pathlib
import subprocess
import sys

try:
    import unicodedata2 as unicodedata
except ImportError:
    import unicodedata

VERSION = "16.0.0"  # of tokenizers 0.23 and tiktoken 0.14; another one has other letters
TARGET = pathlib.Path(__file__).resolve().parent.parent / "include/causeway/data/unicode_classes.hpp"

HEAD = """// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_UNICODE_CLASSES_HPP
#define CAUSEWAY_DATA_UNICODE_CLASSES_HPP

// Which characters are letters (general category L), numbers (N) and white space (the property White_Space), in Unicode
// {version}. Written by tools/unicode_classes.py; another version has more letters, so that text gets other tokens.

#include <causeway/config/config.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

namespace causeway {{ inline namespace CAUSEWAY_ABI {{ namespace data {{

inline constexpr const char* unicode_version = "{version}";

/// What a character is to the patterns that cut text.
enum class character_class : std::uint8_t {{ letter, number, space, other }};

namespace detail {{

/// Characters from the first to the last one.
struct character_range {{
  std::uint32_t first;
  std::uint32_t last;
}};

"""

TAIL = """
/// `ranges` are sorted and apart.
template <class Ranges>
constexpr bool is_among(const Ranges& ranges, std::uint32_t character) noexcept {
  const auto after = std::upper_bound(std::begin(ranges), std::end(ranges), character,
                                      [](std::uint32_t c, const character_range& r) { return c < r.first; });
  return after != std::begin(ranges) && character <= std::prev(after)->last;
}

}  // namespace detail

/// The class of a code point; `other` for what is none.
constexpr character_class class_of_character(std::uint32_t character) noexcept {
  if (detail::is_among(detail::letter_ranges, character)) return character_class::letter;
  if (detail::is_among(detail::number_ranges, character)) return character_class::number;
  return detail::is_among(detail::space_ranges, character) ? character_class::space : character_class::other;
}

}}}  // namespace causeway::CAUSEWAY_ABI::data

#endif  // CAUSEWAY_DATA_UNICODE_CLASSES_HPP
"""


def is_space(character):
    return character in "\t\n\v\f\r \x85" or unicodedata.category(character) in ("Zs", "Zl", "Zp")


def ranges(belongs):
    found = []
    for code in range(0x110000):
        if not belongs(chr(code)):
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def table(name, belongs):
    rows = ranges(belongs)
    values = ", ".join(f"{{0x{first:X}, 0x{last:X}}}" for first, last in rows)
    return f"inline constexpr std::array<character_range, {len(rows)}> {name}{{{{{values}}}}};\n"


def main():
    if unicodedata.unidata_version != VERSION:
        return f"this Python has Unicode {unicodedata.unidata_version}; pip install unicodedata2=={VERSION}"
    text = HEAD.format(version=VERSION)
    text += table("letter_ranges", lambda c: unicodedata.category(c)[0] == "L")
    text += table("number_ranges", lambda c: unicodedata.category(c)[0] == "N")
    text += table("space_ranges", is_space) + TAIL
    TARGET.write_text(text)
    subprocess.run(["clang-format", "-i", str(TARGET)], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
