// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_ASIO_HOST_IPP
#define CAUSEWAY_NET_IMPL_ASIO_HOST_IPP

#include <causeway/net/asio_host.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL host_session::host_session(listener& from, std::uint32_t peers, std::span<const std::byte> welcome,
                                         const rendezvous_options& options)
    : mesh_{from, options}, address_{from.address()}, options_{&options}, welcome_{welcome}, seats_(peers) {
  self_ = options.wanted_index.value_or(0);
  seats_[self_].taken = true;
  mesh_.on_tick([this](time_point now) { look_after_seats(now); });
  mesh_.on_hello(
      [this](const conversation_ptr& who, const frame_header& h, std::span<const std::byte> body) { seat(who, h, body); });
}

CAUSEWAY_INLINE host_session::~host_session() {
  for (seat_state& s : seats_) {
    if (s.who) s.who->stop();
  }
}

CAUSEWAY_DECL result<membership> host_session::run() {
  report();
  if (seats_taken() == seats_.size()) send_tables();
  auto outcome = mesh_.run([this] { return mesh_.complete() && all_ready(); }, [this] { return too_late(); });
  if (!outcome) {
    dismiss(outcome.error());
    return outcome.error();
  }
  send_go();
  // They hang up when they have heard it. To do so first could take the word back: what they still say would be unread.
  const time_point grace = clock_.now() + options_->transport.close_grace;
  CAUSEWAY_TRY(mesh_.run([&] { return all_gone() || clock_.now() >= grace; }, [this] { return too_late(); }));
  for (seat_state& s : seats_) {
    if (s.who) s.who->stop();
  }
  return membership{mesh_.finish(), mesh_.run_id(), {welcome_.begin(), welcome_.end()}, addresses_};
}

CAUSEWAY_DECL std::size_t host_session::seats_taken() const {
  return static_cast<std::size_t>(std::count_if(seats_.begin(), seats_.end(), [](const auto& s) { return s.taken; }));
}

CAUSEWAY_DECL bool host_session::all_ready() const {
  return !addresses_.empty() && std::all_of(seats_.begin(), seats_.end(), [](const auto& s) { return s.ready || !s.who; });
}

CAUSEWAY_DECL bool host_session::all_gone() const {
  return std::all_of(seats_.begin(), seats_.end(), [](const auto& s) { return s.gone || !s.who; });
}

CAUSEWAY_DECL void host_session::seat(const conversation_ptr& who, const frame_header& h, std::span<const std::byte> body) {
  auto said = hello::decode(body);
  if (!said) return mesh_.reject(who, said.error());
  if (auto wrong = mesh_.check_run(h.run_id, said->model_hash)) return mesh_.reject(who, *wrong);
  auto index = choose_seat(said->wanted);
  if (!index) return mesh_.reject(who, index.error());
  seat_state& s = seats_[*index];
  std::error_code failure;
  s = {.taken = true, .said = *said, .seen_host = who->socket().remote_endpoint(failure).address().to_string(), .who = who};
  who->on_end([this, seat = *index](const error& why) { leave(seat, why); });
  listen_to(*index);
  report();
  if (seats_taken() == seats_.size()) send_tables();
}

CAUSEWAY_DECL result<peer_index> host_session::choose_seat(peer_index wanted) const {
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

CAUSEWAY_DECL void host_session::listen_to(peer_index index) {
  const conversation_ptr who = seats_[index].who;
  who->next(handshake_bytes, no_patience_limit, [this, index](const frame_header& h, std::span<const std::byte> body) {
    if (going_) return listen_to(index);
    if (!hear(index, h.kind, body)) {
      return leave(index, h.kind == frame_kind::refused
                              ? read_refusal(peer_name(index), body)
                              : fail(errc::protocol, peer_name(index), "it answered out of turn"));
    }
    seats_[index].silent = {};
    listen_to(index);
  });
}

CAUSEWAY_DECL bool host_session::hear(peer_index index, frame_kind kind, std::span<const std::byte> body) {
  if (kind != frame_kind::ready) return kind == frame_kind::heartbeat;
  byte_reader in{body};
  const auto token = in.get<std::uint64_t>();
  if (!in.finish("ready")) return false;
  if (!addresses_.empty() && token == token_) seats_[index].ready = true;  // else it speaks of a table before this one
  return true;
}

CAUSEWAY_DECL void host_session::look_after_seats(time_point now) {
  const transport_options& o = options_->transport;
  if (now - last_beat_ < o.heartbeat) return;
  // Time that this process itself was stopped for does not count against the others.
  const duration passed = std::min(now - last_beat_, o.heartbeat * 2);
  last_beat_ = now;
  for (peer_index i = 0; i < seats_.size(); ++i) {
    if (!seats_[i].who) continue;
    if ((seats_[i].silent += passed) > o.silence) {
      leave(i, fail(errc::timeout, peer_name(i), "it said nothing for too long"));
    } else {
      seats_[i].who->say(frame_kind::heartbeat, mesh_.run_id(), self_, {});
    }
  }
  if (!addresses_.empty()) look_after_links(now);
}

CAUSEWAY_DECL void host_session::look_after_links(time_point now) {
  const auto ready = std::count_if(seats_.begin(), seats_.end(), [](const auto& s) { return s.ready; });
  const std::size_t made = mesh_.streams_made() + static_cast<std::size_t>(ready);
  if (made != links_made_) links_moved_ = now;
  links_made_ = made;
  if (now - links_moved_ <= options_->link_patience || all_ready()) return;
  bool somebody = false;
  for (peer_index i = 0; i < seats_.size() && !addresses_.empty(); ++i) {
    if (!seats_[i].who || mesh_.linked(i)) continue;
    leave(i, fail(errc::timeout, peer_name(i), "it made no link to us"));
    somebody = true;
  }
  if (!somebody) mesh_.fail_with(too_late());
}

CAUSEWAY_DECL void host_session::leave(peer_index index, const error& why) {
  options_->transport.log(severity::warning,
                          peer_name(index) + " left before the run was complete, its seat is free: " + why.message);
  if (!seats_[index].who->over())
    seats_[index].who->refuse(fail(errc::peer_lost, "", "the host gave you up: " + why.message));
  seats_[index] = {};
  if (!addresses_.empty()) {
    addresses_.clear();
    for (seat_state& s : seats_) s.ready = false;
    mesh_.disconnect_all();
  }
  report();
}

CAUSEWAY_DECL void host_session::report() {
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

CAUSEWAY_DECL void host_session::send_tables() {
  const address_table table = make_table();
  token_ = table.token;
  for (const seat_state& s : seats_) {
    if (!s.who) continue;
    s.who->say(frame_kind::welcome, mesh_.run_id(), self_, welcome_);
    s.who->say(frame_kind::table, mesh_.run_id(), self_, table.encode());
  }
  addresses_ = table.addresses;
  for (endpoint& e : addresses_) {
    if (e.host.empty()) e.host = address_.host;
  }
  links_moved_ = clock_.now();
  mesh_.connect_all(self_, addresses_, table.token, table.streams);
}

CAUSEWAY_DECL address_table host_session::make_table() const {
  address_table table;
  bool all_local = true;
  bool all_bbr = true;
  const auto now = steady_clock{}.now().since_start.count();
  table.token = hash_text(address_.text(), static_cast<std::uint64_t>(now) ^ mesh_.run_id());
  for (const seat_state& s : seats_) {
    if (!s.who) {
      table.addresses.push_back({options_->announce, announced_port(*options_, address_)});
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

CAUSEWAY_DECL void host_session::send_go() {
  going_ = true;
  mesh_.on_tick({});
  for (seat_state& s : seats_) {
    if (!s.who) continue;
    s.who->on_end([&s](const error&) { s.gone = true; });
    s.who->say(frame_kind::go, mesh_.run_id(), self_, {});
  }
}

CAUSEWAY_DECL void host_session::dismiss(const error& why) {
  for (const seat_state& s : seats_) {
    if (s.who && !s.who->over()) s.who->refuse(why);
  }
  mesh_.io().restart();
  mesh_.io().poll();
}

CAUSEWAY_DECL error host_session::too_late() const {
  if (addresses_.empty()) return nobody_came();
  std::string slow;
  for (peer_index i = 0; i < seats_.size(); ++i) {
    if (seats_[i].who && !seats_[i].ready) slow += " " + peer_name(i);
  }
  return fail(errc::timeout, address_.text(),
              "the links were not made in time; missing here: " + mesh_.missing() + "; not ready:" + slow);
}

CAUSEWAY_DECL error host_session::nobody_came() const {
  std::string missing;
  for (peer_index i = 0; i < seats_.size(); ++i) {
    if (!seats_[i].taken) missing += (missing.empty() ? "" : ", ") + peer_name(i);
  }
  return fail(errc::timeout, address_.text(),
              "only " + std::to_string(seats_taken()) + " of " + std::to_string(seats_.size()) +
                  " peers joined before the deadline; missing: " + missing);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_HOST_IPP
