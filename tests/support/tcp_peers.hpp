// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_TCP_PEERS_HPP
#define CAUSEWAY_TESTS_SUPPORT_TCP_PEERS_HPP

// Peers over real loopback sockets in one process, and a stranger that speaks the protocol by hand, well or badly.

#include <causeway/net/asio_stream.hpp>
#include <causeway/net/frame.hpp>
#include <causeway/net/rendezvous.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace support {

using namespace causeway;       // NOLINT: tests only
using namespace causeway::net;  // NOLINT: tests only

inline constexpr std::uint64_t test_run = 77;

/// Collects log lines of any thread.
struct log_lines {
  std::shared_ptr<std::pair<std::mutex, std::string>> state = std::make_shared<std::pair<std::mutex, std::string>>();
  [[nodiscard]] log_sink sink() const {
    return log_sink{[s = state](severity, std::string_view line) {
      const std::lock_guard lock{s->first};
      s->second.append(line).append("\n");
    }};
  }
  [[nodiscard]] std::string text() const {
    const std::lock_guard lock{state->first};
    return state->second;
  }
};

/// A deadline that only a broken test reaches.
inline time_point soon() { return steady_clock{}.now() + std::chrono::seconds{300}; }

inline rendezvous_options test_options() {
  rendezvous_options o;
  o.run_id = test_run;
  o.deadline = soon();
  o.transport.close_grace = std::chrono::milliseconds{200};
  o.transport.socket_buffer = std::size_t{1} << 20U;  // known, so that tests can send more than the kernel takes
  return o;
}

/// A full mesh of `n` peers in this process.
inline std::vector<asio_transport> tcp_mesh(std::uint32_t n, const rendezvous_options& options = test_options()) {
  std::vector<listener> listeners;
  std::vector<endpoint> addresses;
  for (std::uint32_t i = 0; i < n; ++i) {
    listeners.push_back(std::move(*open_listener({})));
    addresses.push_back(listeners.back().address());
  }
  std::vector<std::optional<net::membership>> members(n);
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < n; ++i) {
    threads.emplace_back([&, i] {
      auto made = connect_static(std::move(listeners[i]), i, addresses, options);
      if (made) members[i] = std::move(*made);
    });
  }
  for (std::thread& t : threads) t.join();
  std::vector<asio_transport> transports;
  for (auto& m : members) {
    REQUIRE(m.has_value());
    transports.push_back(std::move(m->transport));
  }
  return transports;
}

/// Bytes that differ from message to message and from place to place.
inline std::vector<std::byte> pattern(std::size_t length, std::uint32_t seed) {
  std::vector<std::byte> bytes(length);
  for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::byte>((i * 31 + i / 251 + seed * 17) & 0xFFU);
  return bytes;
}

/// A peer made of a plain blocking socket.
class raw_peer {
 public:
  explicit raw_peer(const endpoint& to) : socket_{io_} { socket_.connect({asio::ip::make_address(to.host), to.port}); }

  void write(std::span<const std::byte> bytes) {
    std::error_code ignored;
    asio::write(socket_, asio::buffer(bytes.data(), bytes.size()), ignored);
  }
  void write(const frame_header& h) { write(encode_header(h)); }
  void write(const frame_header& h, std::span<const std::byte> body) {
    write(h);
    write(body);
  }

  /// The next frame's header; its content goes to `body`. Empty at the end of the connection.
  std::optional<frame_header> read(std::vector<std::byte>* body = nullptr) {
    header_block block;
    std::error_code failure;
    asio::read(socket_, asio::buffer(block), failure);
    if (failure) return std::nullopt;
    const auto h = decode_header(block);
    if (!h) return std::nullopt;
    std::vector<std::byte> content(h->chunk_length);
    asio::read(socket_, asio::buffer(content), failure);
    if (body != nullptr) *body = std::move(content);
    return *h;
  }

  /// Blocks until the other side has ended the connection.
  void read_to_end() {
    std::array<std::byte, 4096> block;
    for (std::error_code failure; !failure;) socket_.read_some(asio::buffer(block), failure);
  }

  /// Ends the connection the hard way, as a killed program or a lost machine does.
  void reset() {
    std::error_code ignored;
    socket_.set_option(asio::socket_base::linger{true, 0}, ignored);
    socket_.close(ignored);
  }

  asio::ip::tcp::socket& socket() { return socket_; }

 private:
  asio::io_context io_;
  asio::ip::tcp::socket socket_;
};

/// The first frame of stream `stream` of `streams` from peer 1 to peer 0 of a static list of two.
inline std::pair<frame_header, std::vector<std::byte>> link_request(std::uint64_t run = test_run, std::uint64_t model = 0,
                                                                    std::uint32_t stream = 0, std::uint32_t streams = 1) {
  byte_writer body;
  body.put(run).put(model).put(std::uint32_t{0}).put(stream).put(streams);
  body.put(static_cast<std::uint32_t>(net::detail::chunk_for(0, streams)));
  frame_header h;
  h.kind = frame_kind::link;
  h.run_id = run;
  h.sender = 1;
  h.chunk_length = static_cast<std::uint32_t>(body.bytes().size());
  return {h, std::move(body).take()};
}

/// A header of a data frame from peer 1.
inline frame_header data_header(const message_id& id, std::uint64_t sequence, std::size_t length, std::size_t offset,
                                std::size_t chunk) {
  frame_header h;
  h.run_id = test_run;
  h.sender = 1;
  h.id = id;
  h.sequence = sequence;
  h.message_length = length;
  h.chunk_offset = offset;
  h.chunk_length = static_cast<std::uint32_t>(chunk);
  return h;
}

/// Peer 0 as a real transport, peer 1 by hand.
struct half_real {
  std::optional<asio_transport> transport;
  std::optional<raw_peer> peer;  ///< the first stream
  std::deque<raw_peer> others;   ///< the rest of them

  explicit half_real(const rendezvous_options& options = test_options(), std::uint32_t streams = 1) {
    auto listening = open_listener({});
    const endpoint at = listening->address();
    std::thread side{[&] {
      auto made = connect_static(std::move(*listening), 0, {at, endpoint{}}, options);
      if (made) transport.emplace(std::move(made->transport));
    }};
    peer.emplace(at);
    for (std::uint32_t s = 1; s < streams; ++s) others.emplace_back(at);
    for (std::uint32_t s = 0; s < streams; ++s) {
      const auto [h, body] = link_request(test_run, 0, s, streams);
      stream(s).write(h, body);
    }
    bool linked = true;
    for (std::uint32_t s = 0; s < streams; ++s) {
      const auto answer = stream(s).read();
      linked = linked && answer && answer->kind == frame_kind::link_ok;
    }
    side.join();
    REQUIRE(linked);
    REQUIRE(transport);
  }

  raw_peer& stream(std::uint32_t index) { return index == 0 ? *peer : others[index - 1]; }

  /// Waits until the transport has taken in `bytes` more than `before`.
  void until_received(std::uint64_t before, std::size_t bytes) const {
    while (transport->stats().bytes_received < before + bytes) std::this_thread::yield();
  }
};

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_TCP_PEERS_HPP
