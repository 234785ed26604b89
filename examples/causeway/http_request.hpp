// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_HTTP_REQUEST_HPP
#define CAUSEWAY_EXAMPLES_HTTP_REQUEST_HPP

// What is read of an HTTP request: GET or HEAD, a path, numbers in a query, and the host it was meant for. A request has no
// body here. The text comes from strangers; everything that does not fit is refused with a status and a reason.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>

namespace app {

/// A request has at most so many bytes, its empty line included.
inline constexpr std::size_t longest_request = 8192;

struct http_request {
  bool head = false;  ///< only the header is wanted
  std::string path;   ///< "/", "/state.json"
  std::string host;   ///< without a port; empty: the request named none
  std::map<std::string, std::uint64_t> query{};
};

struct http_refusal {
  int status = 400;
  std::string why;
};

/// `text`: all bytes up to and with the empty line.
std::variant<http_request, http_refusal> read_request(std::string_view text);

/// Whether a browser that was told `host` was told an address of this machine, and not a name that somebody else may point
/// here to read along (DNS rebinding). `served`: the host that the page was opened for.
bool is_own_host(std::string_view host, std::string_view served);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_HTTP_REQUEST_HPP
