// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_ASIO_LISTENER_IPP
#define CAUSEWAY_NET_IMPL_ASIO_LISTENER_IPP

#include <causeway/net/asio_listener.hpp>

#include <causeway/net/asio_accept.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL std::uint16_t announced_port(const rendezvous_options& options, const endpoint& own) noexcept {
  return options.announce_port != 0 ? options.announce_port : own.port;
}

CAUSEWAY_DECL error bind_error(const endpoint& where, const std::error_code& failure) {
  if (failure == asio::error::address_in_use) {
    return fail(errc::address_in_use, where.text(),
                "port " + std::to_string(where.port) +
                    " is taken by another program; choose another with --listen, or port 0 for any free one");
  }
  return fail(errc::io_failed, where.text(), "cannot listen there: " + failure.message());
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

CAUSEWAY_DECL listener::listener(std::unique_ptr<detail::bound_port> bound, endpoint address)
    : port{std::move(bound)}, address_{std::move(address)} {}

CAUSEWAY_INLINE listener::listener(listener&&) noexcept = default;
CAUSEWAY_INLINE listener& listener::operator=(listener&&) noexcept = default;
CAUSEWAY_INLINE listener::~listener() = default;

CAUSEWAY_DECL result<listener> open_listener(const endpoint& where, const log_sink& log) {
  auto io = std::make_unique<asio::io_context>();
  std::error_code failure;
  detail::tcp::resolver resolver{*io};
  const auto found = resolver.resolve(where.host, std::to_string(where.port), detail::tcp::resolver::passive, failure);
  if (failure || found.empty()) {
    return fail(errc::invalid_argument, where.text(), "no address of this machine has that name: " + failure.message());
  }
  const detail::tcp::endpoint local = found.begin()->endpoint();
  auto acceptor = std::make_unique<detail::tcp::acceptor>(*io);
  if (acceptor->open(local.protocol(), failure); failure) return detail::bind_error(where, failure);
  acceptor->set_option(asio::socket_base::reuse_address{true}, failure);
  if (acceptor->bind(local, failure); failure) return detail::bind_error(where, failure);
  if (acceptor->listen(asio::socket_base::max_listen_connections, failure); failure)
    return detail::bind_error(where, failure);
  endpoint bound = detail::to_endpoint(acceptor->local_endpoint(failure));
  if (!local.address().is_loopback()) {
    log(severity::warning, "listening on " + bound.text() + ": links are not encrypted; use a private network or a tunnel");
  }
  return listener{std::make_unique<detail::bound_port>(detail::bound_port{std::move(io), std::move(acceptor)}),
                  std::move(bound)};
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_ASIO_LISTENER_IPP
