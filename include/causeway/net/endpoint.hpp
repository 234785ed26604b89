// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ENDPOINT_HPP
#define CAUSEWAY_NET_ENDPOINT_HPP

// A machine and a port, as people write them: "127.0.0.1:5100", "trainer.example.org:5100", "[::1]:5100".

#include <causeway/core/result.hpp>

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace causeway::inline CAUSEWAY_ABI::net {

/// Where somebody listens. Port 0 asks the system for any free port.
struct endpoint {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;

  /// "host:port"; the host in brackets when it is an IPv6 address.
  [[nodiscard]] std::string text() const {
    const bool v6 = host.find(':') != std::string::npos;
    return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
  }

  friend bool operator==(const endpoint&, const endpoint&) = default;
};

/// Reads "host:port" or "[v6]:port". errc::invalid_argument says what is wrong with the text.
inline result<endpoint> parse_endpoint(std::string_view text) {
  const auto refuse = [&](const char* why) {
    return fail(errc::invalid_argument, std::string{text}, std::string{why} + "; write an address as host:port");
  };
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return refuse("it has no port");
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return refuse("an IPv6 address needs brackets");
  }
  if (host.empty() || host.size() > 255) return refuse("it has no usable host name");
  endpoint parsed{std::string{host}, 0};
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), parsed.port);
  if (digits.empty() || failure != std::errc{} || end != digits.data() + digits.size()) {
    return refuse("its port is not a number from 0 to 65535");
  }
  return parsed;
}

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_ENDPOINT_HPP
