// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_TEXT_HPP
#define CAUSEWAY_DATA_TEXT_HPP

// Reading training text: one file, or all text files of a folder in an order that is the same on every machine. What is
// given out is valid UTF-8, unless the caller switches the check off.

#include <causeway/core/result.hpp>
#include <causeway/io/file.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

struct text_options {
  /// Files of a folder that are read; empty: all regular files. A path that names a file is read whatever its name.
  std::vector<std::string> extensions{".txt", ".text", ".md", ".rst"};
  std::size_t minimum_bytes = 1;  ///< less than this in all documents together is an error
  bool require_utf8 = true;       ///< the tokenizers take any bytes; a broken file is usually a mistake
};

struct document {
  std::string name;  ///< the path it was read from
  std::string text;
};

/// Offset of the first byte that is not part of valid UTF-8 (RFC 3629: no surrogates, no overlong forms), if there is one.
CAUSEWAY_DECL std::optional<std::size_t> first_invalid_utf8(std::string_view text) noexcept;

/// One document for a file; for a folder one for each text file in it and below, ordered by path, byte by byte. Hidden
/// files and folders (a leading dot) are left out. Errors: errc::not_found (no such path, no text file), errc::bad_text
/// (empty, too short, not UTF-8: with file, offset and line), errc::io_failed.
CAUSEWAY_DECL result<std::vector<document>> load_documents(const std::string& path, const text_options& options = {});

/// All documents as one text, with an empty line between two documents.
CAUSEWAY_DECL result<std::string> load_text(const std::string& path, const text_options& options = {});

/// Where a long text can be cut so that its parts have the tokens of the whole: the first place at `least` or later that is
/// behind the end of a line, with no white space before and after it, or between an ASCII word and a space with another
/// one. All rules that cut text into pieces begin a new one there, also where the text ends there. The size of the text if
/// there is no such place.
CAUSEWAY_DECL std::size_t where_to_cut(std::string_view text, std::size_t least) noexcept;

namespace detail {

/// Length of the well-formed sequence at the start of `s`, or 0 (Unicode 15, table 3-7).
CAUSEWAY_DECL std::size_t utf8_sequence(std::string_view s) noexcept;

CAUSEWAY_DECL result<std::vector<std::string>> text_files(const std::string& folder, const text_options& options);

CAUSEWAY_DECL error not_utf8(const std::string& name, std::string_view text, std::size_t offset);

CAUSEWAY_DECL result<document> load_document(const std::string& path, const text_options& options);

/// Whether the character at the start of `s` is certainly no white space of Unicode.
CAUSEWAY_DECL bool begins_visibly(std::string_view s) noexcept;
/// The same of the character at its end.
CAUSEWAY_DECL bool ends_visibly(std::string_view s) noexcept;

CAUSEWAY_DECL std::string wanted_extensions(const text_options& options);

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::data

#ifndef CAUSEWAY_COMPILED
#include <causeway/data/impl/text.ipp>
#endif

#endif  // CAUSEWAY_DATA_TEXT_HPP
