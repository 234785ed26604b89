// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_JOIN_HPP
#define CAUSEWAY_NET_ASIO_JOIN_HPP

// The joiner's side of a rendezvous: dials the host, takes the index it is given, and makes its links.

#include <causeway/core/result.hpp>
#include <causeway/net/asio_greeting.hpp>
#include <causeway/net/asio_mesh.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::net {

namespace detail {

/// The joiner's side.
class join_session {
 public:
  join_session(listener& own, endpoint host, const rendezvous_options& options)
      : own_{own.address()}, host_{std::move(host)}, options_{&options}, mesh_{own, options} {}
  ~join_session() {
    if (control_) control_->stop();
  }
  join_session(const join_session&) = delete;
  join_session& operator=(const join_session&) = delete;

  result<membership> run() {
    mesh_.dial(host_, [this](const conversation_ptr& who) { introduce(who); });
    auto outcome = mesh_.run([this] { return may_go_; }, [this] { return too_late(); });
    if (!outcome) return outcome.error();
    control_->stop();
    return membership{mesh_.finish(), mesh_.run_id(), std::move(welcome_), std::move(addresses_)};
  }

 private:
  void introduce(const conversation_ptr& who) {
    control_ = who;
    if (!is_loopback(who->socket()) && options_->announce.empty() && listens_on_loopback()) {
      return mesh_.fail_with(fail(errc::invalid_argument, own_.text(),
                                  "the run is on another machine, but the other peers cannot reach us there; listen on an "
                                  "address of this machine, for example --listen 0.0.0.0:0"));
    }
    tcp::socket probe{mesh_.io()};
    std::error_code failure;
    probe.open(tcp::v4(), failure);
    const hello said{options_->model_hash, options_->wanted_index.value_or(any_index), options_->announce,
                     announced_port(*options_, own_),
                     static_cast<std::uint8_t>(options_->transport.bbr && !failure && ask_for_bbr(probe))};
    who->on_end([this](const error& why) {
      mesh_.fail_with(fail(why.code == errc::peer_lost ? errc::peer_lost : why.code, host_.text(),
                           "the host of the run ended the conversation: " + why.message));
    });
    who->say(frame_kind::hello, options_->run_id, 0, said.encode());
    listen(handshake_patience);
  }

  [[nodiscard]] bool listens_on_loopback() const {
    std::error_code failure;
    const auto address = asio::ip::make_address(own_.host, failure);
    return !failure && address.is_loopback();
  }

  void listen(std::chrono::nanoseconds patience) {
    control_->next(max_handshake_bytes, patience, [this](const frame_header& h, std::span<const std::byte> body) {
      if (auto outcome = hear(h, body); !outcome) return mesh_.fail_with(outcome.error());
      if (!may_go_) listen(std::max<std::chrono::nanoseconds>(options_->transport.silence, handshake_patience));
    });
  }

  result<void> hear(const frame_header& h, std::span<const std::byte> body) {
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

  result<void> hear_accepted(const frame_header& h, std::span<const std::byte> body) {
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

  /// Somebody went while the links were made: they are made anew when another one has come.
  void start_over() {
    addresses_.clear();
    said_ready_ = false;
    mesh_.disconnect_all();
  }

  result<void> hear_table(std::span<const std::byte> body) {
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

  [[nodiscard]] error too_late() const {
    if (control_ == nullptr) {
      return fail(errc::unreachable, host_.text(),
                  "nobody answers there" + mesh_.last_failure() + "; is the first peer running, and is its port open?");
    }
    if (addresses_.empty()) return fail(errc::timeout, host_.text(), "the run was not complete before the deadline");
    return fail(errc::timeout, host_.text(), "the links were not made before the deadline; missing: " + mesh_.missing());
  }

  endpoint own_;
  endpoint host_;
  const rendezvous_options* options_;
  std::vector<std::byte> welcome_;
  std::vector<endpoint> addresses_;
  peer_index index_ = 0;
  std::uint32_t wanted_ = 0;
  bool said_ready_ = false;
  bool may_go_ = false;
  mesh_builder mesh_;
  conversation_ptr control_;
};

}  // namespace detail

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_ASIO_JOIN_HPP
