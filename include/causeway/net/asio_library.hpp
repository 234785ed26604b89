// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_LIBRARY_HPP
#define CAUSEWAY_NET_ASIO_LIBRARY_HPP

// The door to standalone asio, and the socket options that our connections use. Debian's asio 1.22.1 is the oldest version
// we build with.

#if !defined(ASIO_STANDALONE)
#define ASIO_STANDALONE
#endif

#include <causeway/core/result.hpp>
#include <causeway/net/endpoint.hpp>

#include <asio/buffer.hpp>
#include <asio/connect.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/host_name.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>

#include <cstddef>
#include <fstream>
#include <string>
#include <system_error>

#if defined(__linux__)
#include <netinet/tcp.h>
#include <sys/socket.h>
#endif

namespace causeway::inline CAUSEWAY_ABI::net::detail {

using tcp = asio::ip::tcp;

/// Asks the kernel for BBR, whose rate does not collapse on a lossy long path as CUBIC's does. False where it refuses.
inline bool ask_for_bbr([[maybe_unused]] tcp::socket& socket) noexcept {
#if defined(__linux__) && defined(TCP_CONGESTION)
  constexpr char name[] = "bbr";
  return ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_CONGESTION, name, sizeof name - 1) == 0;
#else
  return false;
#endif
}

/// Whether both ends are on this machine. False for a socket that is not connected.
inline bool is_loopback(const tcp::socket& socket) {
  std::error_code failure;
  const auto remote = socket.remote_endpoint(failure);
  return !failure && remote.address().is_loopback();
}

/// Buffers for a link to this machine: 4 MiB save wake-ups (an all-reduce of 64 MiB takes 8 % less time). The kernel clamps
/// larger wishes silently, and a clamped buffer is worse than one it tunes itself; so only where it allows that much.
inline std::size_t loopback_buffer() {
  constexpr std::size_t wanted = std::size_t{4} << 20U;
  for (const char* limit : {"/proc/sys/net/core/rmem_max", "/proc/sys/net/core/wmem_max"}) {
    std::size_t allowed = 0;
    if (!(std::ifstream{limit} >> allowed) || allowed < wanted) return 0;
  }
  return wanted;
}

/// Prepares a connected socket for streaming: no delay, keep-alive, non-blocking, BBR off the machine if wanted, and
/// buffers of `buffer` bytes (0: loopback_buffer on this machine, else what the kernel tunes). Refusals are ignored: the
/// connection works without.
inline void tune(tcp::socket& socket, std::size_t buffer, bool bbr) {
  if (buffer == 0 && is_loopback(socket)) buffer = loopback_buffer();
  std::error_code ignored;
  socket.non_blocking(true, ignored);
  socket.set_option(tcp::no_delay{true}, ignored);
  socket.set_option(asio::socket_base::keep_alive{true}, ignored);
  if (buffer != 0) {
    socket.set_option(asio::socket_base::send_buffer_size{static_cast<int>(buffer)}, ignored);
    socket.set_option(asio::socket_base::receive_buffer_size{static_cast<int>(buffer)}, ignored);
  }
  if (bbr && !is_loopback(socket)) ask_for_bbr(socket);
}

inline endpoint to_endpoint(const tcp::endpoint& e) { return {e.address().to_string(), e.port()}; }

}  // namespace causeway::inline CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_ASIO_LIBRARY_HPP
