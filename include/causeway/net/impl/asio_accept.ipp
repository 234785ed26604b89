// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_ASIO_ACCEPT_IPP
#define CAUSEWAY_NET_IMPL_ASIO_ACCEPT_IPP

#include <causeway/net/asio_accept.hpp>

#include <new>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL accepting::accepting(asio::io_context& io, std::unique_ptr<tcp::acceptor> acceptor, taken_handler taken,
                                   failed_handler failed)
    : acceptor_{std::move(acceptor)}, pause_{io}, taken_{std::move(taken)}, failed_{std::move(failed)} {}

CAUSEWAY_DECL void accepting::start() {
  if (over_) return;
  acceptor_->async_accept([self = shared_from_this()](std::error_code failure, tcp::socket socket) {
    if (self->over_ || failure == asio::error::operation_aborted) return;
    if (failure) return self->fail(failure);
    try {
      self->taken_(std::move(socket));
    } catch (const std::bad_alloc&) {
      return self->fail(std::make_error_code(std::errc::not_enough_memory));
    }
    self->start();
  });
}

CAUSEWAY_DECL void accepting::stop() {
  over_ = true;
  std::error_code ignored;
  acceptor_->close(ignored);
  pause_.cancel();
  taken_ = {};
  failed_ = {};
}

CAUSEWAY_DECL void accepting::fail(const std::error_code& failure) {
  failed_(failure.message());
  pause_.expires_after(pause);
  pause_.async_wait(completion{[self = shared_from_this()](std::error_code stopped) {
    if (!stopped) self->start();
  }});
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_ACCEPT_IPP
