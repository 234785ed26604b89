// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CORE_IMPL_TABLE_TEXT_IPP
#define CAUSEWAY_CORE_IMPL_TABLE_TEXT_IPP

#include <causeway/core/table_text.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace text {

CAUSEWAY_DECL std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

CAUSEWAY_DECL std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

CAUSEWAY_DECL error place::wrong(const std::string& what) const {
  return fail(errc::bad_text, name + ", line " + std::to_string(line), what);
}

CAUSEWAY_DECL result<double> number_between(std::string_view field, double least, double most, const place& at,
                                            const char* what) {
  CAUSEWAY_ASSIGN(const double value, number_from<double>(field, at, what));
  if (value >= least && value <= most) return value;
  return at.wrong(std::string{what} + " is out of range: " + std::string{field.substr(0, 40)});
}

}}}  // namespace causeway::CAUSEWAY_ABI::text

#endif  // CAUSEWAY_CORE_IMPL_TABLE_TEXT_IPP
