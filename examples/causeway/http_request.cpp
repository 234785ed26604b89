// SPDX-License-Identifier: Apache-2.0
#include "http_request.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace app {
namespace {

constexpr std::size_t most_parameters = 8;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_name(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return lower(x) == y; });
}

bool is_visible(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7F; });
}

// What stands before `mark`; the rest, without it, stays in `text`.
std::string_view cut(std::string_view& text, std::string_view mark) {
  const auto at = text.find(mark);
  const std::string_view before = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + mark.size());
  return before;
}

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// "[::1]:80" and "localhost:80" without their ports.
std::string_view without_port(std::string_view host) {
  const auto bracket = host.find(']');
  const auto colon = host.find(':', bracket == std::string_view::npos ? 0 : bracket);
  return host.substr(0, colon);
}

std::optional<http_refusal> read_query(std::string_view text, http_request& r) {
  while (!text.empty()) {
    std::string_view value = cut(text, "&");
    const std::string_view name = cut(value, "=");
    std::uint64_t parsed = 0;
    const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), parsed);
    if (code != std::errc{} || end != value.data() + value.size()) return http_refusal{400, "a query takes whole numbers"};
    if (r.query.size() == most_parameters) return http_refusal{400, "a query has at most 8 parameters"};
    r.query.insert_or_assign(std::string{name}, parsed);
  }
  return std::nullopt;
}

std::optional<http_refusal> read_first_line(std::string_view line, http_request& r) {
  const std::string_view method = cut(line, " ");
  std::string_view target = cut(line, " ");
  if (line != "HTTP/1.1" && line != "HTTP/1.0") return http_refusal{505, "speak HTTP/1.1"};
  if (method != "GET" && method != "HEAD") return http_refusal{405, "there is nothing here but to GET"};
  if (!target.starts_with('/') || !is_visible(target)) return http_refusal{400, "the path must begin with a slash"};
  r.head = method == "HEAD";
  r.path = std::string{cut(target, "?")};
  return read_query(target, r);
}

std::optional<http_refusal> read_field(std::string_view line, http_request& r) {
  const bool has_colon = line.find(':') != std::string_view::npos;
  const std::string_view name = cut(line, ":");
  if (!has_colon || name.empty() || !is_visible(name)) return http_refusal{400, "a header line is NAME: VALUE"};
  const std::string_view value = without_blanks(line);
  if (same_name(name, "transfer-encoding")) return http_refusal{400, "a GET has no body"};
  if (same_name(name, "content-length") && value != "0") return http_refusal{400, "a GET has no body"};
  if (same_name(name, "host")) {
    if (!r.host.empty() || !is_visible(value)) return http_refusal{400, "a request names one host"};
    r.host = std::string{without_port(value)};
  }
  return std::nullopt;
}

}  // namespace

std::variant<http_request, http_refusal> read_request(std::string_view text) {
  if (text.size() > longest_request) return http_refusal{431, "the request is too long"};
  if (!text.ends_with("\r\n\r\n")) return http_refusal{400, "the request has no end"};
  text.remove_suffix(2);
  http_request r;
  if (auto wrong = read_first_line(cut(text, "\r\n"), r)) return *std::move(wrong);
  while (!text.empty()) {
    if (auto wrong = read_field(cut(text, "\r\n"), r)) return *std::move(wrong);
  }
  return r;
}

bool is_own_host(std::string_view host, std::string_view served) {
  if (host.empty() || host == served || same_name(host, "localhost")) return true;
  if (host.starts_with('[')) return true;  // an address of IPv6; a name has no brackets
  return host.find_first_not_of("0123456789.") == std::string_view::npos;
}

}  // namespace app
