// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_ASIO_LIBRARY_IPP
#define CAUSEWAY_NET_IMPL_ASIO_LIBRARY_IPP

#include <causeway/net/asio_library.hpp>

#include <fstream>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL bool ask_for_bbr([[maybe_unused]] tcp::socket& socket) noexcept {
#if defined(__linux__) && defined(TCP_CONGESTION)
  constexpr char name[] = "bbr";
  return ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_CONGESTION, name, sizeof name - 1) == 0;
#else
  return false;
#endif
}

CAUSEWAY_DECL bool kernel_allows_bbr(asio::io_context& io) {
  tcp::socket probe{io};
  std::error_code failure;
  probe.open(asio::ip::tcp::v4(), failure);
  return !failure && ask_for_bbr(probe);
}

CAUSEWAY_DECL bool is_loopback(const tcp::socket& socket) {
  std::error_code failure;
  const auto remote = socket.remote_endpoint(failure);
  return !failure && remote.address().is_loopback();
}

CAUSEWAY_DECL std::size_t loopback_buffer() {
  constexpr std::size_t wanted = std::size_t{4} << 20U;
  for (const char* limit : {"/proc/sys/net/core/rmem_max", "/proc/sys/net/core/wmem_max"}) {
    std::size_t allowed = 0;
    if (!(std::ifstream{limit} >> allowed) || allowed < wanted) return 0;
  }
  return wanted;
}

CAUSEWAY_DECL void tune(tcp::socket& socket, std::size_t buffer, bool bbr) {
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

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_LIBRARY_IPP
