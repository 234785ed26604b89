// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_OPTION_HPP
#define CAUSEWAY_EXAMPLES_OPTION_HPP

// One value that a person can set, as text: what it is called, what it is, and what it may be. Tables of these are the one
// source of the parser, of all help, of the reference page, the manual page and the completion of shells.

#include <charconv>
#include <cmath>
#include <concepts>
#include <functional>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace app {

/// What a value may be besides what its type allows.
struct allowed_values {
  std::vector<std::string> words;  ///< one of these; empty: any
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool above = false;  ///< more than `least`, not as much
  bool below = false;  ///< less than `most`, not as much
};

struct setting {
  std::string name;  ///< "model.layers"; the options of other commands have no section
  std::string help;
  bool local = false;      ///< a matter of this machine (threads, paths): not sent to joiners
  bool is_switch = false;  ///< true or false; as a flag it may stand without a value
  std::function<std::string()> get;
  std::function<bool(const std::string&)> set;  ///< false if the text does not fit
  std::string type;                             ///< "integer", "number", "text", "switch", "integers", ...
  std::string alias;                            ///< the short flag, without --: "batch-size"
  std::string unit;                             ///< "tokens", "seconds"
  allowed_values allowed;

  setting also(std::string flag) && { return alias = std::move(flag), std::move(*this); }
  setting in(std::string what) && { return unit = std::move(what), std::move(*this); }
  setting one_of(std::vector<std::string> words) && { return allowed.words = std::move(words), std::move(*this); }
  setting at_least(double least) && { return allowed.least = least, std::move(*this); }
  setting above(double least) && { return allowed.least = least, allowed.above = true, std::move(*this); }
  setting up_to(double most) && { return allowed.most = most, std::move(*this); }
  setting below(double most) && { return allowed.most = most, allowed.below = true, std::move(*this); }
};

/// Whether the value that the setting has is one that it may have.
bool is_allowed(const setting& s);
/// "gpt or llama", "more than 0, up to 1"; empty if the type says it all.
std::string allowed_text(const setting& s);
/// "'dilco'; did you mean diloco? If not, use one of ...": of a word that is none of `all`.
std::string choose_from(const std::vector<std::string>& all, const std::string& wrong);

namespace detail {

template <class T>
inline constexpr bool is_list = false;
template <class T>
inline constexpr bool is_list<std::vector<T>> = true;

template <class T>
bool from_text(const std::string& text, T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    value = text;
    return true;
  } else if constexpr (std::is_same_v<T, bool>) {
    if (text != "true" && text != "false") return false;
    value = text == "true";
    return true;
  } else if constexpr (is_list<T>) {
    value.clear();
    std::istringstream pieces{text};
    for (std::string piece; std::getline(pieces, piece, ',');) {
      if (!from_text(piece, value.emplace_back())) return false;
    }
    return true;
  } else {
    T parsed{};
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), parsed);
    if (code != std::errc{} || end != text.data() + text.size()) return false;
    if constexpr (std::is_floating_point_v<T>) {
      if (!std::isfinite(parsed)) return false;
    }
    value = parsed;
    return true;
  }
}

template <class T>
std::string to_text(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return value;
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (is_list<T>) {
    std::string all;
    for (const auto& piece : value) all += (all.empty() ? "" : ",") + to_text(piece);
    return all;
  } else {
    char buffer[64];
    const auto [end, code] = std::to_chars(buffer, buffer + sizeof buffer, value);
    return {buffer, end};
  }
}

template <class T>
std::string type_name() {
  if constexpr (std::is_same_v<T, std::string>) {
    return "text";
  } else if constexpr (std::is_same_v<T, bool>) {
    return "switch";
  } else if constexpr (is_list<T>) {
    return type_name<typename T::value_type>() + "s";
  } else {
    return std::is_floating_point_v<T> ? "number" : "integer";
  }
}

}  // namespace detail

template <class T>
setting make_setting(std::string name, T& value, std::string help, bool local = false) {
  setting s{.name = std::move(name),
            .help = std::move(help),
            .local = local,
            .is_switch = std::is_same_v<T, bool>,
            .get = [&value] { return detail::to_text(value); },
            .set = [&value](const std::string& text) { return detail::from_text(text, value); },
            .type = detail::type_name<T>(),
            .alias = {},
            .unit = {},
            .allowed = {}};
  if constexpr (std::unsigned_integral<T> && !std::same_as<T, bool>) s.allowed.least = 0;
  return s;
}

/// The setting that a flag names, without --: by its name or its alias, with - and _ alike. Null: none.
setting* find(std::vector<setting>& all, std::string_view name);
/// The word of `all` that was probably meant, with so many letters changed at most; empty: none is near.
std::string nearest(const std::vector<std::string>& all, std::string_view wanted);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_OPTION_HPP
