// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_HOST_HPP
#define CAUSEWAY_NET_ASIO_HOST_HPP

// The host's side of a rendezvous: seats joiners, hands out addresses, and says go when every link stands.

#include <causeway/core/clock.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/asio_greeting.hpp>
#include <causeway/net/asio_mesh.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// The host's side: a seat for every peer.
class host_session {
 public:
  CAUSEWAY_DECL host_session(listener& from, std::uint32_t peers, std::span<const std::byte> welcome,
                             const rendezvous_options& options);
  ~host_session();
  host_session(const host_session&) = delete;
  host_session& operator=(const host_session&) = delete;

  CAUSEWAY_DECL result<membership> run();

 private:
  struct seat_state {
    bool taken = false;
    bool ready = false;
    bool gone = false;  ///< it has heard that it may go
    duration silent{0};
    hello said;
    std::string seen_host;
    conversation_ptr who;
  };

  CAUSEWAY_DECL [[nodiscard]] std::size_t seats_taken() const;
  CAUSEWAY_DECL [[nodiscard]] bool all_ready() const;

  CAUSEWAY_DECL [[nodiscard]] bool all_gone() const;

  CAUSEWAY_DECL void seat(const conversation_ptr& who, const frame_header& h, std::span<const std::byte> body);

  CAUSEWAY_DECL result<peer_index> choose_seat(peer_index wanted) const;

  /// A seated peer answers heartbeats, and says `ready` when its links stand.
  CAUSEWAY_DECL void listen_to(peer_index index);

  CAUSEWAY_DECL bool hear(peer_index index, frame_kind kind, std::span<const std::byte> body);

  /// Keeps every seat's holder talking, and gives up those who are silent or make no links.
  CAUSEWAY_DECL void look_after_seats(time_point now);

  CAUSEWAY_DECL void look_after_links(time_point now);

  /// The seat is free again. Where links were being made everybody starts over, when it is taken again.
  CAUSEWAY_DECL void leave(peer_index index, const error& why);

  /// Tells the program and everybody who waits how many are in.
  CAUSEWAY_DECL void report();

  CAUSEWAY_DECL void send_tables();

  CAUSEWAY_DECL [[nodiscard]] address_table make_table() const;

  CAUSEWAY_DECL void send_go();

  /// Tells everybody why nothing came of it.
  CAUSEWAY_DECL void dismiss(const error& why);

  CAUSEWAY_DECL [[nodiscard]] error too_late() const;

  CAUSEWAY_DECL [[nodiscard]] error nobody_came() const;

  mesh_builder mesh_;  // first: its event loop must outlive the conversations of the seats
  endpoint address_;
  const rendezvous_options* options_;
  std::span<const std::byte> welcome_;
  std::vector<seat_state> seats_;
  std::vector<endpoint> addresses_;  // empty until everybody is in
  peer_index self_ = 0;
  steady_clock clock_;
  time_point last_beat_;
  time_point links_moved_;  // when the last link was made
  std::size_t links_made_ = 0;
  std::uint64_t token_ = 0;  // of the last table
  bool going_ = false;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/asio_host.ipp>
#endif

#endif  // CAUSEWAY_NET_ASIO_HOST_HPP
