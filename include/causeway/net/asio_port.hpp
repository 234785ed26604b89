// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_PORT_HPP
#define CAUSEWAY_NET_ASIO_PORT_HPP

// The socket behind a net::listener. Headers that programs include name it only; this one has the library in it.

#include <causeway/net/asio_library.hpp>

#include <memory>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// A port that we listen on, and the loop that its connections will live in. Who takes it over takes both.
struct bound_port {
  std::unique_ptr<asio::io_context> io;
  std::unique_ptr<tcp::acceptor> acceptor;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_ASIO_PORT_HPP
