// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_ASIO_FABRIC_IPP
#define CAUSEWAY_NET_IMPL_ASIO_FABRIC_IPP

#include <causeway/net/asio_fabric.hpp>

#include <causeway/net/asio_core.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

static_assert(max_post_bytes == max_control_bytes);

CAUSEWAY_LAZY basic_asio_fabric<Whole>::basic_asio_fabric(listener at, fabric_options options)
    : core_{std::make_shared<detail::fabric_core>(std::move(at), std::move(options))} {}

CAUSEWAY_LAZY basic_asio_fabric<Whole>::~basic_asio_fabric() { core_->close(); }

CAUSEWAY_LAZY peer_id basic_asio_fabric<Whole>::id() const { return core_->options().id; }

CAUSEWAY_LAZY void basic_asio_fabric<Whole>::attach(fabric_events* events) { core_->attach(events); }

CAUSEWAY_LAZY time_point basic_asio_fabric<Whole>::now() const { return core_->now(); }

CAUSEWAY_LAZY void basic_asio_fabric<Whole>::dial(const std::string& to) { core_->dial(to); }

CAUSEWAY_LAZY void basic_asio_fabric<Whole>::close(peer_index link, const std::string& why) { core_->close(link, why); }

CAUSEWAY_LAZY bool basic_asio_fabric<Whole>::is_up(peer_index link) const { return core_->is_up(link); }

CAUSEWAY_LAZY void basic_asio_fabric<Whole>::wake_at(time_point when) { core_->wake_at(when); }

CAUSEWAY_LAZY void basic_asio_fabric<Whole>::cancel_before(std::uint32_t epoch) { core_->cancel_before(epoch); }

CAUSEWAY_LAZY result<std::size_t> basic_asio_fabric<Whole>::wait(operation op, time_point deadline) {
  return core_->wait(op, deadline);
}

CAUSEWAY_LAZY bool basic_asio_fabric<Whole>::done(operation op) const { return core_->done(op); }

CAUSEWAY_LAZY void basic_asio_fabric<Whole>::locked(const std::function<void()>& what) { core_->locked(what); }

CAUSEWAY_LAZY traffic basic_asio_fabric<Whole>::stats() const { return core_->stats(); }

CAUSEWAY_LAZY std::string basic_asio_fabric<Whole>::describe_waits() const { return core_->describe_waits(); }

CAUSEWAY_LAZY std::size_t basic_asio_fabric<Whole>::streams(peer_index link) const { return core_->streams(link); }

CAUSEWAY_LAZY void basic_asio_fabric<Whole>::close() { core_->close(); }

CAUSEWAY_LAZY std::string basic_asio_fabric<Whole>::address() const { return core_->address(); }

CAUSEWAY_LAZY void basic_asio_fabric<Whole>::post(peer_index link, std::vector<std::byte> message, bool bulk) {
  core_->post(link, std::move(message), bulk);
}

CAUSEWAY_LAZY void basic_asio_fabric<Whole>::aside(std::function<void()> work, std::function<void()> then) {
  core_->aside(std::move(work), std::move(then));
}

CAUSEWAY_LAZY operation basic_asio_fabric<Whole>::send(peer_index link, const message_id& id,
                                                       std::span<const std::byte> bytes) {
  return core_->start({.is_send = true, .peer = link, .id = id, .source = bytes.data(), .length = bytes.size()});
}

CAUSEWAY_LAZY operation basic_asio_fabric<Whole>::receive(peer_index link, const message_id& id,
                                                          std::span<std::byte> buffer) {
  return core_->start({.is_send = false, .peer = link, .id = id, .target = buffer.data(), .length = buffer.size()});
}

CAUSEWAY_LAZY result<bool> basic_asio_fabric<Whole>::block(const std::function<bool()>& done, time_point deadline) {
  return core_->block(done, deadline);
}

CAUSEWAY_LAZY std::function<void()> basic_asio_fabric<Whole>::interrupter() const {
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

#ifdef CAUSEWAY_COMPILED
template class basic_asio_fabric<void>;
#endif

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_ASIO_FABRIC_IPP
