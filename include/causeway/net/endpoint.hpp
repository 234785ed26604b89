// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ENDPOINT_HPP
#define CAUSEWAY_NET_ENDPOINT_HPP

// A machine and a port, as people write them: "127.0.0.1:5100", "trainer.example.org:5100", "[::1]:5100".

#include <causeway/core/result.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

/// Where somebody listens. Port 0 asks the system for any free port.
struct endpoint {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;

  /// "host:port"; the host in brackets when it is an IPv6 address.
  CAUSEWAY_DECL [[nodiscard]] std::string text() const;

  friend bool operator==(const endpoint&, const endpoint&) = default;
};

/// Reads "host:port" or "[v6]:port". errc::invalid_argument says what is wrong with the text.
CAUSEWAY_DECL result<endpoint> parse_endpoint(std::string_view text);

}}}  // namespace causeway::CAUSEWAY_ABI::net

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/endpoint.ipp>
#endif

#endif  // CAUSEWAY_NET_ENDPOINT_HPP
