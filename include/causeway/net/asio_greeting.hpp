// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_GREETING_HPP
#define CAUSEWAY_NET_ASIO_GREETING_HPP

// What host and joiners tell each other before the links are made, and what all of them end up with.

#include <causeway/core/result.hpp>
#include <causeway/net/asio_transport.hpp>
#include <causeway/net/codec.hpp>
#include <causeway/net/endpoint.hpp>
#include <causeway/net/frame.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::net {

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

  [[nodiscard]] std::vector<std::byte> encode() const {
    byte_writer out;
    out.put(model_hash).put(wanted).put_text(announce).put(port).put(has_bbr);
    return std::move(out).take();
  }
  static result<hello> decode(std::span<const std::byte> bytes) {
    byte_reader in{bytes};
    hello h;
    h.model_hash = in.get<std::uint64_t>();
    h.wanted = in.get<std::uint32_t>();
    h.announce = in.get_text(255);
    h.port = in.get<std::uint16_t>();
    h.has_bbr = in.get<std::uint8_t>();
    CAUSEWAY_TRY(in.finish("hello"));
    return h;
  }
};

/// Who is where. An empty host means the machine at which the reader reached the host of the run.
struct address_table {
  std::uint64_t token = 0;
  std::uint32_t streams = 0;
  std::vector<endpoint> addresses;

  [[nodiscard]] std::vector<std::byte> encode() const {
    byte_writer out;
    out.put(token).put(streams).put(static_cast<std::uint32_t>(addresses.size()));
    for (const endpoint& e : addresses) out.put_text(e.host).put(e.port);
    return std::move(out).take();
  }
  static result<address_table> decode(std::span<const std::byte> bytes) {
    byte_reader in{bytes};
    address_table t;
    t.token = in.get<std::uint64_t>();
    t.streams = in.get<std::uint32_t>();
    const auto count = in.get<std::uint32_t>();
    if (count > most_peers) return fail(errc::too_large, "address table", "it names more than 1024 peers");
    for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
      endpoint e{in.get_text(255), 0};
      e.port = in.get<std::uint16_t>();
      t.addresses.push_back(std::move(e));
    }
    CAUSEWAY_TRY(in.finish("address table"));
    return t;
  }
};

}  // namespace detail

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_ASIO_GREETING_HPP
