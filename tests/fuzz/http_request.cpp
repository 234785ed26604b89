// SPDX-License-Identifier: Apache-2.0
// Requests of strangers to the page of a run: whatever the bytes are, they are refused with a reason, or they ask for what
// they say.

#include "../../examples/causeway/http_request.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>

namespace {

void must(bool holds) {
  if (!holds) std::abort();
}

bool is_visible(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7F; });
}

// Asked for again in the shortest way, it is the same request.
std::string written(const app::http_request& r) {
  std::string text = (r.head ? "HEAD " : "GET ") + r.path;
  char mark = '?';
  for (const auto& [name, value] : r.query) {
    text += mark + name + "=" + std::to_string(value);
    mark = '&';
  }
  return text + " HTTP/1.1\r\n" + (r.host.empty() ? "" : "Host: " + r.host + "\r\n") + "\r\n";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const auto asked = app::read_request(text);
  if (const auto* const refused = std::get_if<app::http_refusal>(&asked)) {
    must(refused->status >= 400 && refused->status < 600 && !refused->why.empty());
    return 0;
  }
  const auto& r = std::get<app::http_request>(asked);
  must(text.size() <= app::longest_request && text.ends_with("\r\n\r\n"));
  must(r.path.starts_with('/') && is_visible(r.path) && is_visible(r.host) && r.query.size() <= 8);
  (void)app::is_own_host(r.host, "127.0.0.1");
  const auto again = app::read_request(written(r));
  must(std::holds_alternative<app::http_request>(again));
  const auto& same = std::get<app::http_request>(again);
  must(same.head == r.head && same.path == r.path && same.host == r.host && same.query == r.query);
  return 0;
}
