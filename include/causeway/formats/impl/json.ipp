// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_IMPL_JSON_IPP
#define CAUSEWAY_FORMATS_IMPL_JSON_IPP

#include <causeway/formats/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats { namespace detail {

/// What nlohmann's parser calls for each piece of a text: builds the tree, and stops where a limit is passed.
class json_tree {
 public:
  json_tree(const std::string& where, const json_limits& limits) : where_{where}, limits_{limits} {}

  [[nodiscard]] result<json_value> finish() && {
    if (failure_) return std::move(*failure_);
    return std::move(root_);
  }

  bool null() { return add({}); }
  bool boolean(bool value) {
    json_value v;
    v.type = json_value::kind::boolean, v.boolean = value;
    return add(std::move(v));
  }
  bool number_integer(std::int64_t value) {
    json_value v;
    v.type = json_value::kind::integer, v.integer = value, v.number = static_cast<double>(value);
    return add(std::move(v));
  }
  bool number_unsigned(std::uint64_t value) {
    if (value <= static_cast<std::uint64_t>(INT64_MAX)) return number_integer(static_cast<std::int64_t>(value));
    return number_float(static_cast<double>(value), {});
  }
  bool number_float(double value, const std::string&) {
    json_value v;
    v.type = json_value::kind::number, v.number = value;
    return add(std::move(v));
  }
  bool string(std::string& value) {
    json_value v;
    v.type = json_value::kind::text, v.text = std::move(value);
    return add(std::move(v));
  }
  bool binary(std::vector<std::uint8_t>&) { return false; }  // JSON texts have none

  bool start_object(std::size_t) { return open(json_value::kind::object); }
  bool start_array(std::size_t) { return open(json_value::kind::list); }
  bool key(std::string& name) {
    open_.back()->names.push_back(std::move(name));
    return true;
  }
  bool end_object() {
    const json_value& closed = *open_.back();
    std::vector<std::string_view> sorted{closed.names.begin(), closed.names.end()};
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end()) return stop(errc::corrupt, "says the name '" + std::string{*twice} + "' twice");
    open_.pop_back();
    return true;
  }
  bool end_array() {
    open_.pop_back();
    return true;
  }
  template <class Exception>
  bool parse_error(std::size_t at, const std::string&, const Exception&) {
    return stop(errc::corrupt, "is no JSON from byte " + std::to_string(at) + " on; it was cut or changed");
  }

 private:
  bool stop(errc code, std::string why) {
    if (!failure_) failure_ = fail(code, where_, std::move(why));
    return false;
  }

  // Where a value goes. The addresses of open values stay: only the innermost one grows.
  json_value* place(json_value value) {
    if (++values_ > limits_.values) {
      stop(errc::too_large, "has more than " + std::to_string(limits_.values) + " values; nobody writes such a file");
      return nullptr;
    }
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    open_.back()->items.push_back(std::move(value));
    return &open_.back()->items.back();
  }
  bool add(json_value value) { return place(std::move(value)) != nullptr; }
  bool open(json_value::kind type) {
    if (open_.size() >= limits_.depth) {
      return stop(errc::corrupt,
                  "nests deeper than " + std::to_string(limits_.depth) + " levels; nobody writes such a file");
    }
    json_value v;
    v.type = type;
    json_value* const there = place(std::move(v));
    if (there != nullptr) open_.push_back(there);
    return there != nullptr;
  }

  const std::string& where_;
  const json_limits& limits_;
  json_value root_;
  std::vector<json_value*> open_;
  std::size_t values_ = 0;
  std::optional<error> failure_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::formats::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

CAUSEWAY_DECL const json_value* json_value::find(std::string_view name) const noexcept {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? nullptr : &items[static_cast<std::size_t>(found - names.begin())];
}

CAUSEWAY_DECL result<json_value> parse_json(std::string_view text, const std::string& where, const json_limits& limits) {
  if (text.size() > limits.bytes) {
    return fail(
        errc::too_large, where,
        "is " + std::to_string(text.size()) + " bytes of JSON; at most " + std::to_string(limits.bytes) + " are read");
  }
  detail::json_tree tree{where, limits};
  (void)nlohmann::json::sax_parse(text.begin(), text.end(), &tree);  // what went wrong is in the tree
  return std::move(tree).finish();
}

CAUSEWAY_DECL std::string json_quoted(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string quoted = "\"";
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    switch (c) {
      case '"': quoted += "\\\""; break;
      case '\\': quoted += "\\\\"; break;
      case '\b': quoted += "\\b"; break;
      case '\f': quoted += "\\f"; break;
      case '\n': quoted += "\\n"; break;
      case '\r': quoted += "\\r"; break;
      case '\t': quoted += "\\t"; break;
      default:
        if (u >= 0x20) {
          quoted += c;
        } else {
          quoted += "\\u00";
          quoted += digits[u >> 4U];
          quoted += digits[u & 15U];
        }
    }
  }
  return quoted += '"';
}

CAUSEWAY_DECL std::string json_number(float value) {
  std::array<char, 64> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  std::string text{digits.data(), end};
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#endif  // CAUSEWAY_FORMATS_IMPL_JSON_IPP
