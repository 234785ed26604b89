// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/asio_library.hpp>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::net;

TEST_CASE("sockets: are tuned for streaming, and know when both ends are on this machine", "[net][fast]") {
  asio::io_context io;
  net::detail::tcp::acceptor acceptor{io, {asio::ip::address_v4::loopback(), 0}};
  net::detail::tcp::socket socket{io};
  CHECK_FALSE(net::detail::is_loopback(socket));
  socket.connect(acceptor.local_endpoint());
  CHECK(net::detail::is_loopback(socket));
  CHECK(net::detail::kernel_allows_bbr(io) == net::detail::ask_for_bbr(socket));
  net::detail::tune(socket, 65'536, true);
  CHECK(socket.non_blocking());
  asio::ip::tcp::no_delay no_delay;
  socket.get_option(no_delay);
  CHECK(no_delay.value());
  asio::socket_base::keep_alive keep_alive;
  socket.get_option(keep_alive);
  CHECK(keep_alive.value());
  asio::socket_base::send_buffer_size size;
  socket.get_option(size);
  CHECK(size.value() >= 65'536);
  CHECK(net::detail::to_endpoint(acceptor.local_endpoint()).host == "127.0.0.1");
}
