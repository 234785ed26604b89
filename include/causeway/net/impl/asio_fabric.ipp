// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_ASIO_FABRIC_IPP
#define CAUSEWAY_NET_IMPL_ASIO_FABRIC_IPP

// Bodies of net/asio_fabric.hpp.

#include <causeway/net/asio_fabric.hpp>

#include <causeway/net/asio_core.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

static_assert(max_post_bytes == max_control_bytes);

CAUSEWAY_DECL asio_fabric::asio_fabric(listener at, fabric_options options)
    : core_{std::make_shared<detail::fabric_core>(std::move(at), std::move(options))} {}

CAUSEWAY_INLINE asio_fabric::~asio_fabric() { core_->close(); }

CAUSEWAY_INLINE peer_id asio_fabric::id() const { return core_->options().id; }

CAUSEWAY_INLINE void asio_fabric::attach(fabric_events* events) { core_->attach(events); }

CAUSEWAY_INLINE time_point asio_fabric::now() const { return core_->now(); }

CAUSEWAY_INLINE void asio_fabric::dial(const std::string& to) { core_->dial(to); }

CAUSEWAY_INLINE void asio_fabric::close(peer_index link, const std::string& why) { core_->close(link, why); }

CAUSEWAY_INLINE bool asio_fabric::is_up(peer_index link) const { return core_->is_up(link); }

CAUSEWAY_INLINE void asio_fabric::wake_at(time_point when) { core_->wake_at(when); }

CAUSEWAY_INLINE void asio_fabric::cancel_before(std::uint32_t epoch) { core_->cancel_before(epoch); }

CAUSEWAY_INLINE result<std::size_t> asio_fabric::wait(operation op, time_point deadline) {
  return core_->wait(op, deadline);
}

CAUSEWAY_INLINE bool asio_fabric::done(operation op) const { return core_->done(op); }

CAUSEWAY_INLINE void asio_fabric::locked(const std::function<void()>& what) { core_->locked(what); }

CAUSEWAY_INLINE traffic asio_fabric::stats() const { return core_->stats(); }

CAUSEWAY_INLINE std::string asio_fabric::describe_waits() const { return core_->describe_waits(); }

CAUSEWAY_DECL std::size_t asio_fabric::streams(peer_index link) const { return core_->streams(link); }

CAUSEWAY_DECL void asio_fabric::close() { core_->close(); }

CAUSEWAY_INLINE std::string asio_fabric::address() const { return core_->address(); }

CAUSEWAY_INLINE void asio_fabric::post(peer_index link, std::vector<std::byte> message, bool bulk) {
  core_->post(link, std::move(message), bulk);
}

CAUSEWAY_INLINE void asio_fabric::aside(std::function<void()> work, std::function<void()> then) {
  core_->aside(std::move(work), std::move(then));
}

CAUSEWAY_INLINE operation asio_fabric::send(peer_index link, const message_id& id, std::span<const std::byte> bytes) {
  return core_->start({.is_send = true, .peer = link, .id = id, .source = bytes.data(), .length = bytes.size()});
}

CAUSEWAY_INLINE operation asio_fabric::receive(peer_index link, const message_id& id, std::span<std::byte> buffer) {
  return core_->start({.is_send = false, .peer = link, .id = id, .target = buffer.data(), .length = buffer.size()});
}

CAUSEWAY_INLINE result<bool> asio_fabric::block(const std::function<bool()>& done, time_point deadline) {
  return core_->block(done, deadline);
}

CAUSEWAY_DECL std::function<void()> asio_fabric::interrupter() const {
  return [weak = std::weak_ptr{core_}] {
    if (const auto core = weak.lock()) core->interrupt();
  };
}

CAUSEWAY_DECL result<std::shared_ptr<asio_fabric>> open_fabric(listener at, fabric_options options) {
  if (options.run_id == 0 || options.id == 0) {
    return fail(errc::invalid_argument, at.address().text(),
                "a fabric needs the id of a run and of a peer, neither of them 0");
  }
  return std::make_shared<asio_fabric>(std::move(at), std::move(options));
}

CAUSEWAY_DECL result<std::shared_ptr<asio_fabric>> open_fabric(const endpoint& where, fabric_options options) {
  CAUSEWAY_ASSIGN(listener at, open_listener(where, options.transport.log));
  return open_fabric(std::move(at), std::move(options));
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_ASIO_FABRIC_IPP
