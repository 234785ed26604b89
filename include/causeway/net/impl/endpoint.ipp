// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_ENDPOINT_IPP
#define CAUSEWAY_NET_IMPL_ENDPOINT_IPP

#include <causeway/net/endpoint.hpp>

#include <charconv>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

CAUSEWAY_DECL std::string endpoint::text() const {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

CAUSEWAY_DECL result<endpoint> parse_endpoint(std::string_view text) {
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

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_ENDPOINT_IPP
