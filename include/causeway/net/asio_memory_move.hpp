// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_MEMORY_MOVE_HPP
#define CAUSEWAY_NET_ASIO_MEMORY_MOVE_HPP

// How a stream between two processes of one machine moves to shared memory, each direction once, between two frames: one
// side offers, the other takes the offer or declines it, and what follows that word is in memory.

#include <causeway/core/result.hpp>
#include <causeway/net/asio_outbox.hpp>
#include <causeway/net/asio_stream.hpp>
#include <causeway/net/frame.hpp>

#include <cstdint>
#include <string>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// Of one link, which reads and writes. All that it is given must outlive it.
class memory_move {
 public:
  /// What the link is to do when it has heard of it.
  enum class next : std::uint8_t {
    nothing,
    write,  ///< there is something to say
    wake,   ///< the same, and memory that is to wake this side
  };

  memory_move(link_context& shared, std::uint32_t sender, std::string name, const outbox& out)
      : shared_{&shared}, sender_{sender}, name_{std::move(name)}, outbox_{&out} {}

  /// A message of this length was seen on a stream. The peer with the smaller number offers to move, once; whether it does
  /// now: then the offer waits to be written.
  CAUSEWAY_DECL bool consider(stream& s, std::uint64_t length) const;

  /// An offer, or the answer to ours. `closing`: nothing new is begun. An error: it was out of turn.
  CAUSEWAY_DECL result<next> hear(stream& s, const frame_header& h, bool closing) const;

  /// What this side writes from now on is in memory.
  CAUSEWAY_DECL void taken(stream& s) const;

 private:
  CAUSEWAY_DECL next answer(stream& s, std::uint64_t number, bool closing) const;

  // What the other side sends from now on is in memory.
  CAUSEWAY_DECL result<next> follow(stream& s) const;

  // Nobody needs TCP any more once both directions have moved.
  CAUSEWAY_DECL void leave_tcp(stream& s) const;

  link_context* shared_;
  std::uint32_t sender_;  ///< what the other side's frames name as their sender
  std::string name_;
  const outbox* outbox_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/asio_memory_move.ipp>
#endif

#endif  // CAUSEWAY_NET_ASIO_MEMORY_MOVE_HPP
