// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_DOCUMENT_READER_HPP
#define CAUSEWAY_FORMATS_DOCUMENT_READER_HPP

// The documents of a data set, piece by piece, whether they are text files or JSON lines: a data set of any size needs the
// memory of one piece.

#include <causeway/core/result.hpp>
#include <causeway/data/data_files.hpp>
#include <causeway/io/file.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

// Texts in JSON lines, as data sets are passed around: each line an object, one of its members the text of a document.
// Lines may be hostile; one at a time is in memory.

/// Reads the lines of a text in order. Not safe to share between threads.
class json_lines {
 public:
  /// `text` must outlive the reader. `where` names it in messages, `field` is the member that is read.
  CAUSEWAY_DECL json_lines(std::string_view text, std::string where, std::string field);

  /// The text in the next line that is not empty; none at the end. errc::corrupt: a line that is no JSON object, or has no
  /// text under that name; errc::too_large: one with more than 2¹⁶ values. The message says which line.
  CAUSEWAY_DECL result<std::optional<std::string>> next();

  /// Bytes of the text that were read.
  [[nodiscard]] std::size_t position() const noexcept { return at_; }
  /// The line that was read last, from 1 on.
  [[nodiscard]] std::size_t line() const noexcept { return line_; }

 private:
  CAUSEWAY_DECL result<std::string> text_in(std::string_view line) const;

  std::string_view text_;
  std::string where_;
  std::string field_;
  std::size_t at_ = 0;
  std::size_t line_ = 0;
};

/// Some text of a document, valid until the next call. Pieces are cut where no token crosses (`data::where_to_cut`).
struct document_piece {
  std::string_view text;
  bool ends_document = false;
};

/// Reads the documents in the order of the files. Documents without text are left out. Not safe to share between threads.
class document_reader {
 public:
  /// `field`: the member of JSON lines that has the text. A piece has about `piece_bytes`, or a whole document where that
  /// is shorter or has no place to be cut. errc::not_found: a file is not there; errc::unsupported: token shards.
  CAUSEWAY_DECL static result<document_reader> open(data::data_files files, std::string field = "text",
                                                    std::size_t piece_bytes = std::size_t{1} << 20U);

  /// None at the end. errc::bad_text: not UTF-8, with file, offset and line; and the errors of `json_lines`.
  CAUSEWAY_DECL result<std::optional<document_piece>> next();

  /// Bytes in all files, and of those that were read.
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  CAUSEWAY_DECL [[nodiscard]] std::uint64_t position() const noexcept;

  /// Whether there can be more than one document.
  CAUSEWAY_DECL [[nodiscard]] bool has_several() const noexcept;

  /// Equal where the files hold the same and the same is read from them, whatever they are called. Reads everything.
  CAUSEWAY_DECL [[nodiscard]] result<std::uint64_t> content_hash() const;

 private:
  CAUSEWAY_DECL document_reader(data::data_files files, std::string field, std::size_t piece_bytes);

  CAUSEWAY_DECL result<void> open_next();
  CAUSEWAY_DECL result<std::optional<document_piece>> next_of_text();
  CAUSEWAY_DECL result<std::optional<document_piece>> next_of_lines();

  data::data_files files_;
  std::string field_;
  std::size_t piece_bytes_;
  std::uint64_t size_ = 0;
  std::uint64_t before_ = 0;  // bytes in the files that were read to their end
  std::size_t opened_ = 0;    // files; the last of them is the current one
  std::optional<io::mapped_file> file_;
  std::size_t at_ = 0;  // in a text file
  std::optional<json_lines> lines_;
  std::string line_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#ifndef CAUSEWAY_COMPILED
#include <causeway/formats/impl/document_reader.ipp>
#endif

#endif  // CAUSEWAY_FORMATS_DOCUMENT_READER_HPP
