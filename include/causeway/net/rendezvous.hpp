// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_RENDEZVOUS_HPP
#define CAUSEWAY_NET_RENDEZVOUS_HPP

// How peers find each other. The first peer hosts: it listens, seats whoever joins, hands out indices and everybody's
// address, and all build the full mesh of links. Or each is given the static list of addresses. Nothing is printed; the
// caller shows `listener::address()` in its join command. Every refusal says what to do about it.

#include <causeway/core/clock.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/asio_mesh.hpp>
#include <causeway/net/asio_transport.hpp>
#include <causeway/net/codec.hpp>
#include <causeway/net/endpoint.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::net {

/// A run's network, ready to train.
struct membership {
  asio_transport transport;
  std::uint64_t run_id = 0;
  std::vector<std::byte> welcome;   ///< what the host's program gave to `host`; empty with a static list
  std::vector<endpoint> addresses;  ///< of every peer, by index
};

inline constexpr std::size_t max_welcome_bytes = max_control_bytes;

namespace detail {

inline constexpr peer_index any_index = UINT32_MAX;
inline constexpr std::chrono::nanoseconds no_patience_limit = std::chrono::nanoseconds::max();

struct hello {
  std::uint64_t model_hash = 0;
  peer_index wanted = any_index;
  std::string announce;
  std::uint16_t port = 0;
  std::uint8_t has_bbr = 0;

  [[nodiscard]] std::vector<std::byte> encode() const {
    byte_writer out;
    out.put(model_hash).put(wanted).put_text(announce).put(port).put(has_bbr);
    return std::move(out).take();
  }
  static result<hello> decode(std::span<const std::byte> bytes) {
    byte_reader in{bytes};
    hello h;
    h.model_hash = in.get<std::uint64_t>();
    h.wanted = in.get<std::uint32_t>();
    h.announce = in.get_text(255);
    h.port = in.get<std::uint16_t>();
    h.has_bbr = in.get<std::uint8_t>();
    CAUSEWAY_TRY(in.finish("hello"));
    return h;
  }
};

/// Who is where. An empty host means the machine at which the reader reached the host of the run.
struct address_table {
  std::uint64_t token = 0;
  std::uint32_t streams = 0;
  std::vector<endpoint> addresses;

  [[nodiscard]] std::vector<std::byte> encode() const {
    byte_writer out;
    out.put(token).put(streams).put(static_cast<std::uint32_t>(addresses.size()));
    for (const endpoint& e : addresses) out.put_text(e.host).put(e.port);
    return std::move(out).take();
  }
  static result<address_table> decode(std::span<const std::byte> bytes) {
    byte_reader in{bytes};
    address_table t;
    t.token = in.get<std::uint64_t>();
    t.streams = in.get<std::uint32_t>();
    const auto count = in.get<std::uint32_t>();
    if (count > most_peers) return fail(errc::too_large, "address table", "it names more than 1024 peers");
    for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
      endpoint e{in.get_text(255), 0};
      e.port = in.get<std::uint16_t>();
      t.addresses.push_back(std::move(e));
    }
    CAUSEWAY_TRY(in.finish("address table"));
    return t;
  }
};

/// The host's side: a seat for every peer.
class host_session {
 public:
  host_session(listener& from, std::uint32_t peers, std::span<const std::byte> welcome, const rendezvous_options& options)
      : mesh_{from, options}, address_{from.address()}, options_{&options}, welcome_{welcome}, seats_(peers) {
    self_ = options.wanted_index.value_or(0);
    seats_[self_].taken = true;
    mesh_.on_hello([this](const conversation_ptr& who, const frame_header& h, std::span<const std::byte> body) {
      seat(who, h, body);
    });
  }
  ~host_session() {
    for (seat_state& s : seats_) {
      if (s.who) s.who->stop();
    }
  }
  host_session(const host_session&) = delete;
  host_session& operator=(const host_session&) = delete;

  result<membership> run() {
    report();
    if (seats_taken() == seats_.size()) send_tables();
    auto outcome = mesh_.run([this] { return mesh_.complete() && all_ready(); }, [this] { return too_late(); });
    if (!outcome) {
      dismiss(outcome.error());
      return outcome.error();
    }
    send_go();
    CAUSEWAY_TRY(mesh_.run([this] { return waiting_for_go_ == 0; }, [this] { return too_late(); }));
    for (seat_state& s : seats_) {
      if (s.who) s.who->stop();
    }
    return membership{mesh_.finish(), mesh_.run_id(), {welcome_.begin(), welcome_.end()}, addresses_};
  }

 private:
  struct seat_state {
    bool taken = false;
    bool ready = false;
    hello said;
    std::string seen_host;
    conversation_ptr who;
  };

  [[nodiscard]] std::size_t seats_taken() const {
    return static_cast<std::size_t>(std::count_if(seats_.begin(), seats_.end(), [](const auto& s) { return s.taken; }));
  }
  [[nodiscard]] bool all_ready() const {
    return !addresses_.empty() &&
           std::all_of(seats_.begin(), seats_.end(), [](const auto& s) { return s.ready || !s.who; });
  }

  void seat(const conversation_ptr& who, const frame_header& h, std::span<const std::byte> body) {
    auto said = hello::decode(body);
    if (!said) return mesh_.reject(who, said.error());
    if (auto wrong = mesh_.check_run(h.run_id, said->model_hash)) return mesh_.reject(who, *wrong);
    auto index = choose_seat(said->wanted);
    if (!index) return mesh_.reject(who, index.error());
    seat_state& s = seats_[*index];
    std::error_code failure;
    s = {true, false, *said, who->socket().remote_endpoint(failure).address().to_string(), who};
    listen_to(*index);
    report();
    if (seats_taken() == seats_.size()) send_tables();
  }

  result<peer_index> choose_seat(peer_index wanted) const {
    if (seats_taken() == seats_.size()) {
      return fail(errc::wrong_run, "", "the run is full: all " + std::to_string(seats_.size()) + " peers are in");
    }
    if (wanted == any_index) {
      const auto free = std::find_if(seats_.begin(), seats_.end(), [](const auto& s) { return !s.taken; });
      return static_cast<peer_index>(free - seats_.begin());
    }
    if (wanted >= seats_.size() || seats_[wanted].taken) {
      return fail(errc::invalid_argument, "",
                  "index " + std::to_string(wanted) + (wanted >= seats_.size() ? " does not exist" : " is taken") +
                      "; join without an index, or resume each peer in its own folder");
    }
    return wanted;
  }

  /// A seated peer says nothing until its links stand; then it says `ready`.
  void listen_to(peer_index index) {
    const conversation_ptr who = seats_[index].who;
    who->on_end([this, index](const error& why) { leave(index, why); });
    who->next(handshake_bytes, no_patience_limit, [this, index](const frame_header& h, std::span<const std::byte> body) {
      if (h.kind == frame_kind::ready && !addresses_.empty()) {
        seats_[index].ready = true;
        return;
      }
      mesh_.fail_with(h.kind == frame_kind::refused ? read_refusal(peer_name(index), body)
                                                    : fail(errc::protocol, peer_name(index), "it answered out of turn"));
    });
  }

  void leave(peer_index index, const error& why) {
    if (!addresses_.empty()) {
      return mesh_.fail_with(fail(errc::peer_lost, peer_name(index), "it left while the links were made: " + why.message));
    }
    options_->transport.log(severity::warning, peer_name(index) + " left before the run was complete: " + why.message);
    seats_[index] = {};
    report();
  }

  /// Tells the program and everybody who waits how many are in.
  void report() {
    const auto joined = static_cast<std::uint32_t>(seats_taken());
    const auto wanted = static_cast<std::uint32_t>(seats_.size());
    if (options_->progress) options_->progress({joined, wanted, joined == wanted});
    for (peer_index i = 0; i < seats_.size(); ++i) {
      if (!seats_[i].who) continue;
      byte_writer body;
      body.put(i).put(wanted).put(joined);
      seats_[i].who->say(frame_kind::accepted, mesh_.run_id(), self_, body.bytes());
    }
  }

  void send_tables() {
    const address_table table = make_table();
    for (const seat_state& s : seats_) {
      if (!s.who) continue;
      s.who->say(frame_kind::welcome, mesh_.run_id(), self_, welcome_);
      s.who->say(frame_kind::table, mesh_.run_id(), self_, table.encode());
    }
    addresses_ = table.addresses;
    for (endpoint& e : addresses_) {
      if (e.host.empty()) e.host = address_.host;
    }
    mesh_.connect_all(self_, addresses_, table.token, table.streams);
  }

  [[nodiscard]] address_table make_table() const {
    address_table table;
    bool all_local = true;
    bool all_bbr = true;
    const auto now = steady_clock{}.now().since_start.count();
    table.token = hash_text(address_.text(), static_cast<std::uint64_t>(now) ^ mesh_.run_id());
    for (const seat_state& s : seats_) {
      if (!s.who) {
        table.addresses.push_back({options_->announce, address_.port});
        continue;
      }
      const bool local = is_loopback(s.who->socket());
      all_local = all_local && local;
      all_bbr = all_bbr && s.said.has_bbr != 0;
      const std::string seen = local ? std::string{} : s.seen_host;
      table.addresses.push_back({s.said.announce.empty() ? seen : s.said.announce, s.said.port});
    }
    const std::size_t streams = options_->streams_per_link;
    table.streams = streams != 0 ? static_cast<std::uint32_t>(streams) : all_local || all_bbr ? 1 : 16;
    return table;
  }

  void send_go() {
    for (const seat_state& s : seats_) {
      if (!s.who) continue;
      ++waiting_for_go_;
      s.who->on_end([this](const error&) { --waiting_for_go_; });
      s.who->say(frame_kind::go, mesh_.run_id(), self_, {}, [this] { --waiting_for_go_; });
    }
  }

  /// Tells everybody why nothing came of it.
  void dismiss(const error& why) {
    for (const seat_state& s : seats_) {
      if (s.who && !s.who->over()) s.who->refuse(mesh_.run_id(), why);
    }
    mesh_.io().restart();
    mesh_.io().poll();
  }

  [[nodiscard]] error too_late() const {
    const auto in = std::to_string(seats_taken()) + " of " + std::to_string(seats_.size());
    if (addresses_.empty()) return fail(errc::timeout, address_.text(), "only " + in + " peers joined before the deadline");
    std::string slow;
    for (peer_index i = 0; i < seats_.size(); ++i) {
      if (seats_[i].who && !seats_[i].ready) slow += " " + peer_name(i);
    }
    return fail(errc::timeout, address_.text(),
                "the links were not made before the deadline; missing here: " + mesh_.missing() + "; not ready:" + slow);
  }

  mesh_builder mesh_;  // first: its event loop must outlive the conversations of the seats
  endpoint address_;
  const rendezvous_options* options_;
  std::span<const std::byte> welcome_;
  std::vector<seat_state> seats_;
  std::vector<endpoint> addresses_;  // empty until everybody is in
  peer_index self_ = 0;
  std::size_t waiting_for_go_ = 0;
};

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
    const hello said{options_->model_hash, options_->wanted_index.value_or(any_index), options_->announce, own_.port,
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
    control_->next(max_control_bytes, patience, [this](const frame_header& h, std::span<const std::byte> body) {
      if (auto outcome = hear(h, body); !outcome) return mesh_.fail_with(outcome.error());
      if (!may_go_) listen(no_patience_limit);
    });
  }

  result<void> hear(const frame_header& h, std::span<const std::byte> body) {
    if (h.kind == frame_kind::refused) return read_refusal(host_.text(), body);
    if (h.kind == frame_kind::accepted) return hear_accepted(h, body);
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
    if (options_->progress) options_->progress({joined, wanted_, joined == wanted_});
    return {};
  }

  result<void> hear_table(std::span<const std::byte> body) {
    CAUSEWAY_ASSIGN(address_table table, address_table::decode(body));
    if (table.addresses.size() != wanted_) return fail(errc::protocol, host_.text(), "its table of peers is incomplete");
    for (endpoint& e : table.addresses) {
      if (e.host.empty()) e.host = host_.host;
    }
    addresses_ = table.addresses;
    mesh_.on_complete([this] {
      said_ready_ = true;
      control_->say(frame_kind::ready, mesh_.run_id(), index_, {});
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

/// Serves a run at `at` until `peers` peers (ourselves included) are in and connected. `welcome` reaches every joiner.
/// Blocks until then, the deadline (errc::timeout), or a stop (errc::cancelled).
inline result<membership> host(listener at, std::uint32_t peers, std::span<const std::byte> welcome,
                               const rendezvous_options& options) {
  if (peers == 0 || peers > detail::most_peers || options.wanted_index.value_or(0) >= peers) {
    return fail(errc::invalid_argument, at.address().text(), "a run has 1 to 1024 peers, and the host is one of them");
  }
  if (welcome.size() > max_welcome_bytes) {
    return fail(errc::too_large, at.address().text(), "the settings sent to joiners are limited to 64 KiB");
  }
  if (options.run_id == 0) return fail(errc::invalid_argument, at.address().text(), "a run needs an id other than 0");
  return detail::host_session{at, peers, welcome, options}.run();
}

/// Joins the run served at `address`. Dials again until the deadline while nobody listens there yet.
inline result<membership> join(const endpoint& address, const rendezvous_options& options) {
  CAUSEWAY_ASSIGN(listener own, open_listener(options.listen, options.transport.log));
  return detail::join_session{own, address, options}.run();
}

/// Connects peers that all have the same list of addresses, without a host. `at` listens at `addresses[self]`.
inline result<membership> connect_static(listener at, peer_index self, const std::vector<endpoint>& addresses,
                                         const rendezvous_options& options) {
  if (self >= addresses.size() || addresses.size() > detail::most_peers || options.run_id == 0) {
    return fail(errc::invalid_argument, "static peers", "needs a run id, at most 1024 addresses, and our index among them");
  }
  detail::mesh_builder mesh{at, options};
  mesh.connect_all(self, addresses, options.run_id, options.streams_per_link);
  CAUSEWAY_TRY(mesh.run([&] { return mesh.complete(); },
                        [&] {
                          return fail(errc::unreachable, addresses[self].text(),
                                      "not connected before the deadline: " + mesh.missing());
                        }));
  return membership{mesh.finish(), options.run_id, {}, addresses};
}

/// The same, listening at our own entry of the list.
inline result<membership> connect_static(peer_index self, const std::vector<endpoint>& addresses,
                                         const rendezvous_options& options) {
  if (self >= addresses.size()) return fail(errc::invalid_argument, "static peers", "our index is not in the list");
  CAUSEWAY_ASSIGN(listener at, open_listener(addresses[self], options.transport.log));
  return connect_static(std::move(at), self, addresses, options);
}

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_RENDEZVOUS_HPP
