// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_ACCEPT_HPP
#define CAUSEWAY_NET_ASIO_ACCEPT_HPP

// Accepts connections for as long as it lives. What goes wrong with one of them (no descriptors, no memory, a client that
// is gone again) never ends the accepting, and is not asked for again at once: that would take a whole core.

#include <causeway/net/asio_library.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

// The socket behind a net::listener. Headers that programs include name it only; this one has the library in it.

/// A port that we listen on, and the loop that its connections will live in. Who takes it over takes both.
struct bound_port {
  std::unique_ptr<asio::io_context> io;
  std::unique_ptr<tcp::acceptor> acceptor;
};

/// Held by shared_ptr; its handlers keep it alive. After `stop` it calls nobody back. Used from the event loop only.
class accepting : public std::enable_shared_from_this<accepting> {
 public:
  using taken_handler = std::function<void(tcp::socket)>;
  using failed_handler = std::function<void(const std::string&)>;

  CAUSEWAY_DECL accepting(asio::io_context& io, std::unique_ptr<tcp::acceptor> acceptor, taken_handler taken,
                          failed_handler failed);

  CAUSEWAY_DECL void start();

  CAUSEWAY_DECL void stop();

 private:
  static constexpr std::chrono::milliseconds pause{100};

  CAUSEWAY_DECL void fail(const std::error_code& failure);

  std::unique_ptr<tcp::acceptor> acceptor_;
  timer pause_;
  taken_handler taken_;
  failed_handler failed_;
  bool over_ = false;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/asio_accept.ipp>
#endif

#endif  // CAUSEWAY_NET_ASIO_ACCEPT_HPP
