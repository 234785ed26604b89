// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_GREETING_HPP
#define CAUSEWAY_NET_ASIO_GREETING_HPP

// What host and joiners tell each other before the links are made, and what all of them end up with.

#include <causeway/core/result.hpp>
#include <causeway/net/asio_transport.hpp>
#include <causeway/net/endpoint.hpp>
#include <causeway/net/fields.hpp>
#include <causeway/net/frame.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

inline constexpr std::uint32_t most_peers = 1024;

/// A run's network, ready to train.
struct membership {
  asio_transport transport;
  std::uint64_t run_id = 0;
  std::vector<std::byte> welcome;   ///< what the host's program gave to `host`; empty with a static list
  std::vector<endpoint> addresses;  ///< of every peer, by index
};

inline constexpr std::size_t max_welcome_bytes = max_handshake_bytes;

namespace detail {

inline constexpr peer_index any_index = UINT32_MAX;
inline constexpr std::chrono::nanoseconds no_patience_limit = std::chrono::nanoseconds::max();

struct hello {
  std::uint64_t model_hash = 0;
  peer_index wanted = any_index;
  std::string announce;
  std::uint16_t port = 0;
  std::uint8_t has_bbr = 0;

  CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> encode() const;
  CAUSEWAY_DECL static result<hello> decode(std::span<const std::byte> bytes);
  void fields(auto& wire) { wire(model_hash, wanted, text{announce, 255}, port, has_bbr); }
};

/// Who is where. An empty host means the machine at which the reader reached the host of the run.
struct address_table {
  std::uint64_t token = 0;
  std::uint32_t streams = 0;
  std::vector<endpoint> addresses;

  CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> encode() const;
  CAUSEWAY_DECL static result<address_table> decode(std::span<const std::byte> bytes);
  void fields(auto& wire) {
    wire(token, streams, list{addresses, most_peers, [](auto& w, endpoint& e) { w(text{e.host, 255}, e.port); }});
  }
};

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::net

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/asio_greeting.ipp>
#endif

#endif  // CAUSEWAY_NET_ASIO_GREETING_HPP
