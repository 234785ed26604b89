// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_ASIO_JOIN_IPP
#define CAUSEWAY_NET_IMPL_ASIO_JOIN_IPP

#include <causeway/net/asio_join.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL join_session::join_session(listener& own, endpoint host, const rendezvous_options& options)
    : own_{own.address()}, host_{std::move(host)}, options_{&options}, mesh_{own, options} {}

CAUSEWAY_INLINE join_session::~join_session() {
  if (control_) control_->stop();
}

CAUSEWAY_DECL result<membership> join_session::run() {
  mesh_.dial(host_, [this](const conversation_ptr& who) { introduce(who); });
  auto outcome = mesh_.run([this] { return may_go_; }, [this] { return too_late(); });
  if (!outcome) return outcome.error();
  control_->stop();
  return membership{mesh_.finish(), mesh_.run_id(), std::move(welcome_), std::move(addresses_)};
}

CAUSEWAY_DECL void join_session::introduce(const conversation_ptr& who) {
  control_ = who;
  if (!is_loopback(who->socket()) && options_->announce.empty() && listens_on_loopback()) {
    return mesh_.fail_with(fail(errc::invalid_argument, own_.text(),
                                "the run is on another machine, but the other peers cannot reach us there; listen on an "
                                "address of this machine, for example --listen 0.0.0.0:0"));
  }
  const hello said{options_->model_hash, options_->wanted_index.value_or(any_index), options_->announce,
                   announced_port(*options_, own_),
                   static_cast<std::uint8_t>(options_->transport.bbr && kernel_allows_bbr(mesh_.io()))};
  who->on_end([this](const error& why) {
    mesh_.fail_with(fail(why.code == errc::peer_lost ? errc::peer_lost : why.code, host_.text(),
                         "the host of the run ended the conversation: " + why.message));
  });
  who->say(frame_kind::hello, options_->run_id, 0, said.encode());
  listen(handshake_patience);
}

CAUSEWAY_DECL bool join_session::listens_on_loopback() const {
  std::error_code failure;
  const auto address = asio::ip::make_address(own_.host, failure);
  return !failure && address.is_loopback();
}

CAUSEWAY_DECL void join_session::listen(std::chrono::nanoseconds patience) {
  control_->next(max_handshake_bytes, patience, [this](const frame_header& h, std::span<const std::byte> body) {
    if (auto outcome = hear(h, body); !outcome) return mesh_.fail_with(outcome.error());
    if (!may_go_) listen(std::max<std::chrono::nanoseconds>(options_->transport.silence, handshake_patience));
  });
}

CAUSEWAY_DECL result<void> join_session::hear(const frame_header& h, std::span<const std::byte> body) {
  if (h.kind == frame_kind::refused) return read_refusal(host_.text(), body);
  if (h.kind == frame_kind::accepted) return hear_accepted(h, body);
  if (h.kind == frame_kind::heartbeat) {
    control_->say(frame_kind::heartbeat, mesh_.run_id(), index_, {});
    return {};
  }
  if (h.kind == frame_kind::welcome && wanted_ != 0) {
    welcome_.assign(body.begin(), body.end());
    return {};
  }
  if (h.kind == frame_kind::table && wanted_ != 0 && addresses_.empty()) return hear_table(body);
  if (h.kind == frame_kind::go && said_ready_) {
    may_go_ = true;
    return {};
  }
  return fail(errc::protocol, host_.text(), "the host answered out of turn");
}

CAUSEWAY_DECL result<void> join_session::hear_accepted(const frame_header& h, std::span<const std::byte> body) {
  byte_reader in{body};
  index_ = in.get<std::uint32_t>();
  wanted_ = in.get<std::uint32_t>();
  const auto joined = in.get<std::uint32_t>();
  CAUSEWAY_TRY(in.finish("acceptance"));
  if (wanted_ > most_peers || index_ >= wanted_) return fail(errc::protocol, host_.text(), "it gave us no usable index");
  if (options_->run_id != 0 && h.run_id != options_->run_id)
    return fail(errc::wrong_run, host_.text(), "it serves another run");
  mesh_.set_run(h.run_id);
  if (!addresses_.empty()) start_over();
  if (options_->progress) options_->progress({joined, wanted_, joined == wanted_});
  return {};
}

CAUSEWAY_DECL void join_session::start_over() {
  addresses_.clear();
  said_ready_ = false;
  mesh_.disconnect_all();
}

CAUSEWAY_DECL result<void> join_session::hear_table(std::span<const std::byte> body) {
  CAUSEWAY_ASSIGN(address_table table, address_table::decode(body));
  if (table.addresses.size() != wanted_) return fail(errc::protocol, host_.text(), "its table of peers is incomplete");
  for (endpoint& e : table.addresses) {
    if (e.host.empty()) e.host = host_.host;
  }
  addresses_ = table.addresses;
  mesh_.on_complete([this, token = table.token] {
    said_ready_ = true;
    byte_writer of_table;
    of_table.put(token);
    control_->say(frame_kind::ready, mesh_.run_id(), index_, of_table.bytes());
  });
  mesh_.connect_all(index_, addresses_, table.token, table.streams);
  return {};
}

CAUSEWAY_DECL error join_session::too_late() const {
  if (control_ == nullptr) {
    return fail(errc::unreachable, host_.text(),
                "nobody answers there" + mesh_.last_failure() + "; is the first peer running, and is its port open?");
  }
  if (addresses_.empty()) return fail(errc::timeout, host_.text(), "the run was not complete before the deadline");
  return fail(errc::timeout, host_.text(), "the links were not made before the deadline; missing: " + mesh_.missing());
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_JOIN_IPP
