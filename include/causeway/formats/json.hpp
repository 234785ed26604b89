// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_JSON_HPP
#define CAUSEWAY_FORMATS_JSON_HPP

// JSON texts that others wrote, as a tree. The text may be hostile: its length, its depth and the number of its values are
// limited, and a name that an object has twice is an error. The only header that needs nlohmann-json (version 3), and only
// for its bodies.

#include <causeway/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

/// What a text may have at most. A value takes about 100 bytes of memory.
struct json_limits {
  std::size_t bytes = 100'000'000;
  std::size_t depth = 32;  ///< objects and arrays inside each other
  std::size_t values = std::size_t{1} << 21U;
};

/// One value, with all that is in it.
struct json_value {
  enum class kind : std::uint8_t { null, boolean, integer, number, text, list, object };

  kind type = kind::null;
  bool boolean = false;
  std::int64_t integer = 0;
  double number = 0;  ///< of an integer, too
  std::string text;
  std::vector<std::string> names;  ///< of an object: items[i] is called names[i], in the order of the text
  std::vector<json_value> items;   ///< of a list or an object

  [[nodiscard]] bool is(kind wanted) const noexcept { return type == wanted; }
  [[nodiscard]] bool is_object() const noexcept { return is(kind::object); }
  /// The member of an object; null if it has none of this name.
  CAUSEWAY_DECL [[nodiscard]] const json_value* find(std::string_view name) const noexcept;
};

/// Errors: errc::corrupt for what is no JSON, says a name twice or nests too deep; errc::too_large for what is too long.
/// `where` names the text in messages.
CAUSEWAY_DECL result<json_value> parse_json(std::string_view text, const std::string& where,
                                            const json_limits& limits = {});

/// `text` in quotes, escaped as Rust's serde and Python's json (without ensure_ascii) do it.
CAUSEWAY_DECL [[nodiscard]] std::string json_quoted(std::string_view text);

/// A number that reads back as the same f32: "1e-05", "32.0".
CAUSEWAY_DECL [[nodiscard]] std::string json_number(float value);

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#ifndef CAUSEWAY_COMPILED
#include <causeway/formats/impl/json.ipp>
#endif

#endif  // CAUSEWAY_FORMATS_JSON_HPP
