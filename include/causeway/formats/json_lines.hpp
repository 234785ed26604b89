// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_JSON_LINES_HPP
#define CAUSEWAY_FORMATS_JSON_LINES_HPP

// Texts in JSON lines, as data sets are passed around: each line an object, one of its members the text of a document.
// Lines may be hostile; one at a time is in memory.

#include <causeway/core/result.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

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

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#ifndef CAUSEWAY_COMPILED
#include <causeway/formats/impl/json_lines.ipp>
#endif

#endif  // CAUSEWAY_FORMATS_JSON_LINES_HPP
