// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_ASIO_TRANSPORT_IPP
#define CAUSEWAY_NET_IMPL_ASIO_TRANSPORT_IPP

#include <causeway/net/asio_transport.hpp>

#include <causeway/net/asio_mesh_engine.hpp>

#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

CAUSEWAY_DECL asio_transport::asio_transport(std::shared_ptr<detail::mesh_engine> engine) : engine_{std::move(engine)} {}

CAUSEWAY_DECL operation asio_transport::send(peer_index to, const message_id& id, std::span<const std::byte> bytes) {
  return engine_->start({.is_send = true, .peer = to, .id = id, .source = bytes.data(), .length = bytes.size()});
}

CAUSEWAY_DECL operation asio_transport::receive(peer_index from, const message_id& id, std::span<std::byte> buffer) {
  return engine_->start({.is_send = false, .peer = from, .id = id, .target = buffer.data(), .length = buffer.size()});
}

CAUSEWAY_DECL peer_index asio_transport::self() const noexcept { return engine_->self(); }

CAUSEWAY_DECL std::uint32_t asio_transport::size() const noexcept { return engine_->size(); }

CAUSEWAY_DECL result<std::size_t> asio_transport::wait(operation op, time_point deadline) {
  return engine_->wait(op, deadline);
}

CAUSEWAY_DECL bool asio_transport::done(operation op) const { return engine_->done(op); }

CAUSEWAY_DECL bool asio_transport::wait_any(std::span<const operation> ops, time_point deadline) {
  return engine_->wait_any(ops, deadline);
}

CAUSEWAY_DECL traffic asio_transport::stats() const { return engine_->stats(); }

CAUSEWAY_DECL std::string asio_transport::describe_waits() const { return engine_->describe_waits(); }

CAUSEWAY_DECL std::size_t asio_transport::streams(peer_index peer) const { return engine_->streams(peer); }

CAUSEWAY_DECL void asio_transport::discard_before(std::uint32_t epoch) { engine_->discard_before(epoch); }

CAUSEWAY_DECL void asio_transport::drop(peer_index peer, const std::string& why) { engine_->drop(peer, why); }

CAUSEWAY_DECL void asio_transport::close() { engine_->close(); }

CAUSEWAY_DECL std::function<void()> asio_transport::interrupter() const {
  return [weak = std::weak_ptr{engine_}] {
    if (const auto engine = weak.lock()) engine->interrupt();
  };
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_ASIO_TRANSPORT_IPP
