// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_JSON_LINE_HPP
#define CAUSEWAY_EXAMPLES_JSON_LINE_HPP

// JSON objects as they are written: member after member. A number that is not finite becomes null, since JSON has none.

#include <causeway/formats/json.hpp>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace app {

class json_line {
 public:
  json_line& add(std::string_view name, double value) {
    char digits[40];
    std::snprintf(digits, sizeof digits, "%.9g", value);
    return raw(name, std::isfinite(value) ? digits : "null");
  }
  /// A moment in Unix time, which has more digits than other numbers need.
  json_line& moment(std::string_view name, double unix_seconds) {
    char digits[40];
    std::snprintf(digits, sizeof digits, "%.3f", unix_seconds);
    return raw(name, digits);
  }
  /// Numbers above 2^53 do not survive every reader: give those as text.
  json_line& add(std::string_view name, std::integral auto value) {
    if constexpr (std::same_as<decltype(value), bool>) return raw(name, value ? "true" : "false");
    return raw(name, std::to_string(value));
  }
  json_line& add(std::string_view name, std::string_view text) { return raw(name, causeway::formats::json_quoted(text)); }
  json_line& add(std::string_view name, const char* text) { return add(name, std::string_view{text}); }
  json_line& add(std::string_view name, const std::string& text) { return add(name, std::string_view{text}); }

  /// `json` is a value already.
  json_line& raw(std::string_view name, std::string_view json) {
    text_.append(text_.empty() ? "{\"" : ",\"").append(name).append("\":").append(json);
    return *this;
  }

  [[nodiscard]] std::string text() const { return text_.empty() ? "{}" : text_ + "}"; }

 private:
  std::string text_;
};

/// "[a,b]" of values that are JSON already.
template <class List, class Show>
std::string json_list(const List& list, Show show) {
  std::string text = "[";
  for (const auto& one : list) text.append(text.size() > 1 ? "," : "").append(show(one));
  return text + "]";
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_JSON_LINE_HPP
