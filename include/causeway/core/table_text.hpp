// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CORE_TABLE_TEXT_HPP
#define CAUSEWAY_CORE_TABLE_TEXT_HPP

// What tables have in common that people write as text: lines, comments from '#' on, fields, numbers, and errors that name
// the line. Nothing is trusted, and sizes are bounded.

#include <causeway/core/result.hpp>

#include <charconv>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace text {

inline constexpr std::size_t longest_table = std::size_t{16} << 20U;

CAUSEWAY_DECL std::string_view trimmed(std::string_view text);

/// The parts of `text` between `separator`, trimmed. At least one.
CAUSEWAY_DECL std::vector<std::string_view> split(std::string_view text, char separator);

/// One line of a file, for messages.
struct place {
  const std::string& name;
  std::size_t line;

  CAUSEWAY_DECL [[nodiscard]] error wrong(const std::string& what) const;
};

/// Calls `take(line, place)` for each line that holds more than blanks and comments. `name` is for messages.
template <class Take>
result<void> for_each_line(std::string_view text, const std::string& name, Take take) {
  if (text.size() > longest_table) return fail(errc::too_large, name, "longer than 16 MiB; leave out what is not needed");
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view whole = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const std::string_view line = trimmed(whole.substr(0, whole.find('#')));
    if (!line.empty()) CAUSEWAY_TRY(take(line, place{name, number}));
  }
  return {};
}

/// A number of type T that takes the whole field.
template <class T>
result<T> number_from(std::string_view field, const place& at, const char* what) {
  T value{};
  const auto [end, code] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (field.empty() || code != std::errc{} || end != field.data() + field.size()) {
    return at.wrong(std::string{what} + " is not a number: \"" + std::string{field.substr(0, 40)} + '"');
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) return at.wrong(std::string{what} + " must be finite");
  }
  return value;
}

/// `value` in [least, most].
CAUSEWAY_DECL result<double> number_between(std::string_view field, double least, double most, const place& at,
                                            const char* what);

}}}  // namespace causeway::CAUSEWAY_ABI::text

#ifndef CAUSEWAY_COMPILED
#include <causeway/core/impl/table_text.ipp>
#endif

#endif  // CAUSEWAY_CORE_TABLE_TEXT_HPP
