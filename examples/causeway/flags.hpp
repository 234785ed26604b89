// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_FLAGS_HPP
#define CAUSEWAY_EXAMPLES_FLAGS_HPP

// The options of a command that trains nothing: "--name value", straight into variables.

#include <causeway/core/result.hpp>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <system_error>
#include <type_traits>
#include <variant>
#include <vector>

namespace app {

struct flag {
  std::string name, help;
  std::variant<std::string*, std::uint32_t*, std::uint64_t*, double*, bool*> value;
};

namespace detail {

inline bool assign_flag(const flag& f, const std::string& text) {
  return std::visit(
      [&](auto* value) {
        using type = std::remove_pointer_t<decltype(value)>;
        if constexpr (std::is_same_v<type, std::string>) {
          *value = text;
          return true;
        } else if constexpr (std::is_same_v<type, bool>) {
          *value = text == "true";
          return *value || text == "false";
        } else {
          const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), *value);
          return code == std::errc{} && end == text.data() + text.size();
        }
      },
      f.value);
}

inline std::string flag_default(const flag& f) {
  return std::visit(
      [](const auto* value) -> std::string {
        using type = std::remove_cv_t<std::remove_pointer_t<decltype(value)>>;
        if constexpr (std::is_same_v<type, std::string>) {
          return *value;
        } else if constexpr (std::is_same_v<type, bool>) {
          return *value ? "true" : "";
        } else {
          char digits[64];
          return {digits, std::to_chars(digits, digits + sizeof digits, *value).ptr};
        }
      },
      f.value);
}

}  // namespace detail

/// Reads what follows the word `command`. errc::invalid_argument names what is no option or does not fit.
inline causeway::result<void> read_flags(const std::string& command, const std::vector<std::string>& arguments,
                                         const std::vector<flag>& all) {
  using causeway::errc;
  using causeway::fail;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string name = arguments[i], text;
    const auto equals = name.find('=');
    const bool joined = equals != std::string::npos;
    if (joined) {
      text = name.substr(equals + 1);
      name.resize(equals);
    }
    const flag* found = nullptr;
    for (const flag& f : all) {
      if ("--" + f.name == name) found = &f;
    }
    if (found == nullptr)
      return fail(errc::invalid_argument, name, "is no option; `causeway " + command + " --help` lists all");
    const bool has_value = joined || (i + 1 < arguments.size() && !arguments[i + 1].starts_with("--"));
    if (!has_value && !std::holds_alternative<bool*>(found->value))
      return fail(errc::invalid_argument, name, "needs a value: " + found->help);
    if (!joined) text = has_value ? arguments[++i] : "true";
    if (!detail::assign_flag(*found, text))
      return fail(errc::invalid_argument, name, "'" + text + "' does not fit (" + found->help + ")");
  }
  return {};
}

/// Prints all options with what they say and their values by default.
inline void print_flags(const std::vector<flag>& all) {
  for (const flag& f : all) {
    const std::string value = detail::flag_default(f);
    std::printf("  --%-16s %s%s\n", f.name.c_str(), f.help.c_str(), value.empty() ? "" : (" [" + value + "]").c_str());
  }
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_FLAGS_HPP
