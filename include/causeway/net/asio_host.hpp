// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_HOST_HPP
#define CAUSEWAY_NET_ASIO_HOST_HPP

// The host's side of a rendezvous: seats joiners, hands out addresses, and says go when every link stands.

#include <causeway/core/clock.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/asio_greeting.hpp>
#include <causeway/net/asio_mesh.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::net {

namespace detail {

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

}  // namespace detail

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_ASIO_HOST_HPP
