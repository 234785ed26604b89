// SPDX-License-Identifier: Apache-2.0
// JSON lines from strangers: each line is refused with its number, or is a text no longer than the line. Whatever they are,
// they are read to the end or to the first that is refused.

#include <causeway/formats/document_reader.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

void must(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  causeway::formats::json_lines lines{text, "input", "text"};
  for (std::size_t before = 0;; before = lines.position()) {
    const auto line = lines.next();
    must(lines.position() <= size);
    if (!line) {
      must(line.error().where == "input, line " + std::to_string(lines.line()) && !line.error().message.empty());
      return 0;
    }
    if (!*line) break;
    must(lines.position() > before && (*line)->size() <= lines.position() - before);
  }
  must(lines.position() == size);
  return 0;
}
