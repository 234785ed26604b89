// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_LIBRARY_HPP
#define CAUSEWAY_NET_ASIO_LIBRARY_HPP

// The door to standalone asio, and the socket options that our connections use. Debian's asio 1.22.1 is the oldest version
// we build with.

#if !defined(ASIO_STANDALONE)
#define ASIO_STANDALONE
#endif

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

#include <chrono>
#include <cstddef>
#include <functional>
#include <system_error>

#if defined(__linux__)
#include <netinet/tcp.h>
#include <sys/socket.h>
#endif

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// asio's names, with the executor of an io_context instead of any: what asio compiles for each kind of handler is a third
/// of what a program with our network compiles.
struct tcp {
  using executor = asio::io_context::executor_type;
  using socket = asio::basic_stream_socket<asio::ip::tcp, executor>;
  using acceptor = asio::basic_socket_acceptor<asio::ip::tcp, executor>;
  using resolver = asio::ip::basic_resolver<asio::ip::tcp, executor>;
  using endpoint = asio::ip::tcp::endpoint;
  using no_delay = asio::ip::tcp::no_delay;
};

using timer =
    asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>, tcp::executor>;

/// Every handler is of one of these types, so that asio's operations are compiled once. What captures no more than two
/// pointers needs no memory.
using completion = std::function<void(std::error_code)>;
using transfer_completion = std::function<void(std::error_code, std::size_t)>;

/// Asks the kernel for BBR, whose rate does not collapse on a lossy long path as CUBIC's does. False where it refuses.
CAUSEWAY_DECL bool ask_for_bbr([[maybe_unused]] tcp::socket& socket) noexcept;

/// Whether the kernel would give it: asked with a socket of its own.
CAUSEWAY_DECL bool kernel_allows_bbr(asio::io_context& io);

/// Whether both ends are on this machine. False for a socket that is not connected.
CAUSEWAY_DECL bool is_loopback(const tcp::socket& socket);

/// Buffers for a link to this machine: 4 MiB save wake-ups (an all-reduce of 64 MiB takes 8 % less time). The kernel clamps
/// larger wishes silently, and a clamped buffer is worse than one it tunes itself; so only where it allows that much.
CAUSEWAY_DECL std::size_t loopback_buffer();

/// Prepares a connected socket for streaming: no delay, keep-alive, non-blocking, BBR off the machine if wanted, and
/// buffers of `buffer` bytes (0: loopback_buffer on this machine, else what the kernel tunes). Refusals are ignored: the
/// connection works without.
CAUSEWAY_DECL void tune(tcp::socket& socket, std::size_t buffer, bool bbr);

inline endpoint to_endpoint(const tcp::endpoint& e) { return {e.address().to_string(), e.port()}; }

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/asio_library.ipp>
#endif

#endif  // CAUSEWAY_NET_ASIO_LIBRARY_HPP
