// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_IMPL_JSON_LINES_IPP
#define CAUSEWAY_FORMATS_IMPL_JSON_LINES_IPP

// Bodies of formats/json_lines.hpp.

#include <causeway/formats/json_lines.hpp>

#include <causeway/formats/json.hpp>

#include <algorithm>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

CAUSEWAY_DECL json_lines::json_lines(std::string_view text, std::string where, std::string field)
    : text_{text}, where_{std::move(where)}, field_{std::move(field)} {}

CAUSEWAY_DECL result<std::optional<std::string>> json_lines::next() {
  while (at_ < text_.size()) {
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    const std::string_view line = text_.substr(at_, end - at_);
    at_ = std::min(end + 1, text_.size());
    ++line_;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    CAUSEWAY_ASSIGN(std::string text, text_in(line));
    return std::optional{std::move(text)};
  }
  return std::optional<std::string>{};
}

CAUSEWAY_DECL result<std::string> json_lines::text_in(std::string_view line) const {
  const std::string where = where_ + ", line " + std::to_string(line_);
  CAUSEWAY_ASSIGN(json_value root, parse_json(line, where, {.values = std::size_t{1} << 16U}));
  if (!root.is_object()) {
    return fail(errc::corrupt, where,
                "is no JSON object. JSON lines have an object in each line, such as {\"text\": \"...\"}");
  }
  const auto at = std::find(root.names.begin(), root.names.end(), field_) - root.names.begin();
  if (at == std::ssize(root.names)) {
    std::string names;
    for (std::size_t i = 0; i < std::min<std::size_t>(root.names.size(), 8); ++i) {
      names += (i == 0 ? "" : ", ") + root.names[i].substr(0, 40);
    }
    return fail(errc::corrupt, where,
                "has no '" + field_ + "' (it has: " + names + "). Say which member is the text with data.field");
  }
  json_value& found = root.items[static_cast<std::size_t>(at)];
  if (found.is(json_value::kind::text)) return std::move(found.text);
  return fail(errc::corrupt, where, "has a '" + field_ + "' that is no text. Say which member is the text with data.field");
}

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#endif  // CAUSEWAY_FORMATS_IMPL_JSON_LINES_IPP
