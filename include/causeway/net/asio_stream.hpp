// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_STREAM_HPP
#define CAUSEWAY_NET_ASIO_STREAM_HPP

// The state of one TCP connection of a link: how far it is in reading and in writing. And what all links of a transport
// share. The link drives it; nothing here moves a byte.

#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/net/asio_library.hpp>
#include <causeway/net/frame.hpp>
#include <causeway/net/inbox.hpp>
#include <causeway/net/operations.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::net {

struct transport_options {
  std::size_t chunk_bytes = 0;                            ///< 0: 1 MiB on one stream, 256 KiB on several
  std::size_t unexpected_bytes = std::size_t{64} << 20U;  ///< kept per peer before reading from it pauses
  std::size_t socket_buffer = 0;                          ///< 0: the kernel tunes it
  bool bbr = true;                                        ///< ask the kernel for BBR; false keeps its default
  duration heartbeat = std::chrono::seconds{1};           ///< how often an idle link says that it lives
  duration silence = std::chrono::seconds{10};     ///< a peer silent for longer is lost (or longer, see deadline.hpp)
  duration close_grace = std::chrono::seconds{2};  ///< how long `close` waits for the others' goodbye
  log_sink log;
};

namespace detail {

/// What all links of one transport share. `mutex` guards it and every link.
struct link_context {
  std::mutex mutex;
  operation_table operations;
  traffic stats;
  transport_options options;
  std::uint64_t run_id = 0;
  peer_index self = 0;
  steady_clock clock;
};

/// The chunk length of a link of `streams` streams; both sides compute the same.
inline std::size_t chunk_for(std::size_t wanted, std::size_t streams) noexcept {
  const std::size_t automatic = std::size_t{streams > 1 ? 256U : 1024U} << 10U;
  return std::clamp(wanted == 0 ? automatic : wanted, min_chunk_bytes, max_chunk_bytes);
}

/// What a stream is writing: a header, then bytes of a send.
struct outgoing_frame {
  header_block header;
  std::size_t header_left = 0;
  const std::byte* body = nullptr;
  std::size_t body_left = 0;
  std::size_t body_length = 0;
  slot_index slot = no_slot;
  std::vector<std::byte> rescued;  ///< the rest of a chunk whose send was cancelled

  [[nodiscard]] bool busy() const { return header_left + body_left != 0; }
  [[nodiscard]] std::array<asio::const_buffer, 2> buffers() const {
    return {asio::const_buffer{header.data() + header_bytes - header_left, header_left},
            asio::const_buffer{body, body_left}};
  }
  void consume(std::size_t n) {
    const std::size_t of_header = std::min(n, header_left);
    header_left -= of_header;
    body += n - of_header;
    body_left -= n - of_header;
  }
};

/// One TCP connection of a link, and how far it is in reading and writing.
struct stream {
  static constexpr std::size_t staging_bytes = std::size_t{16} << 10U;

  explicit stream(tcp::socket s) : socket{std::move(s)}, staging(staging_bytes) {}

  tcp::socket socket;
  bool open = true;
  bool read_armed = false;
  bool write_armed = false;
  bool heard_goodbye = false;
  bool said_goodbye = false;

  std::vector<std::byte> staging;  ///< headers, small chunks, and the beginnings of large ones
  std::size_t begin = 0;
  std::size_t end = 0;
  bool in_chunk = false;
  landing spot;
  std::size_t chunk_left = 0;
  std::optional<frame_header> parked;  ///< a chunk that the inbox has no room for yet

  outgoing_frame out;
  std::deque<frame_header> notices;  ///< frames without content that go before the next chunk
};

}  // namespace detail

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_ASIO_STREAM_HPP
