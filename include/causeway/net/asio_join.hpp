// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_JOIN_HPP
#define CAUSEWAY_NET_ASIO_JOIN_HPP

// The joiner's side of a rendezvous: dials the host, takes the index it is given, and makes its links.

#include <causeway/core/result.hpp>
#include <causeway/net/asio_greeting.hpp>
#include <causeway/net/asio_mesh.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// The joiner's side.
class join_session {
 public:
  CAUSEWAY_DECL join_session(listener& own, endpoint host, const rendezvous_options& options);
  ~join_session();
  join_session(const join_session&) = delete;
  join_session& operator=(const join_session&) = delete;

  CAUSEWAY_DECL result<membership> run();

 private:
  CAUSEWAY_DECL void introduce(const conversation_ptr& who);

  CAUSEWAY_DECL [[nodiscard]] bool listens_on_loopback() const;

  CAUSEWAY_DECL void listen(std::chrono::nanoseconds patience);

  CAUSEWAY_DECL result<void> hear(const frame_header& h, std::span<const std::byte> body);

  CAUSEWAY_DECL result<void> hear_accepted(const frame_header& h, std::span<const std::byte> body);

  /// Somebody went while the links were made: they are made anew when another one has come.
  CAUSEWAY_DECL void start_over();

  CAUSEWAY_DECL result<void> hear_table(std::span<const std::byte> body);

  CAUSEWAY_DECL [[nodiscard]] error too_late() const;

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

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/asio_join.ipp>
#endif

#endif  // CAUSEWAY_NET_ASIO_JOIN_HPP
