// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_TABLE_TEXT_HPP
#define CAUSEWAY_SIM_TABLE_TEXT_HPP

// What the simulator's text files have in common: lines, comments from '#' on, fields, numbers, and errors that name the
// line. Text comes from people: nothing is trusted, and sizes are bounded.

#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::sim::detail {

inline constexpr std::size_t longest_table_text = std::size_t{16} << 20U;

inline std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

/// The parts of `text` between `separator`, trimmed. At least one.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

/// One line of a file, for messages.
struct text_place {
  const std::string& name;
  std::size_t line;

  [[nodiscard]] error wrong(const std::string& what) const {
    return fail(errc::bad_text, name + ", line " + std::to_string(line), what);
  }
};

/// Calls `take(line, place)` for each line that holds more than blanks and comments. `name` is for messages.
template <class Take>
result<void> for_each_line(std::string_view text, const std::string& name, Take take) {
  if (text.size() > longest_table_text)
    return fail(errc::too_large, name, "longer than 16 MiB; leave out what is not needed");
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view whole = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const std::string_view line = trimmed(whole.substr(0, whole.find('#')));
    if (!line.empty()) CAUSEWAY_TRY(take(line, text_place{name, number}));
  }
  return {};
}

/// A number of type T that takes the whole field.
template <class T>
result<T> number_from(std::string_view field, const text_place& place, const char* what) {
  T value{};
  const auto [end, code] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (field.empty() || code != std::errc{} || end != field.data() + field.size()) {
    return place.wrong(std::string{what} + " is not a number: \"" + std::string{field.substr(0, 40)} + '"');
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) return place.wrong(std::string{what} + " must be finite");
  }
  return value;
}

/// `value` in [least, most].
inline result<double> number_between(std::string_view field, double least, double most, const text_place& place,
                                     const char* what) {
  CAUSEWAY_ASSIGN(const double value, number_from<double>(field, place, what));
  if (value >= least && value <= most) return value;
  return place.wrong(std::string{what} + " is out of range: " + std::string{field.substr(0, 40)});
}

/// Whole nanoseconds; `seconds` at most some 290 years.
inline duration from_seconds(double seconds) { return duration{std::llround(seconds * 1e9)}; }

}  // namespace causeway::inline CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_TABLE_TEXT_HPP
