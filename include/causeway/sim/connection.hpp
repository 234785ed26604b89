// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_CONNECTION_HPP
#define CAUSEWAY_SIM_CONNECTION_HPP

// Connections as the kernels of two hosts know them, and what travels on them. Each way has three lanes (control, data,
// bulk): pieces of a lane keep their order, and an earlier lane goes first. A piece of a message carries only its size; the
// message itself rides on its last piece.

#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/sim/links.hpp>
#include <causeway/sim/options.hpp>
#include <causeway/sim/queue.hpp>
#include <causeway/sim/sent_message.hpp>

#include <array>
#include <cstdint>
#include <string>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

struct piece {
  std::uint64_t bytes = 0;
  duration spread{0};     ///< from its first bit to its last
  sent_message_ptr last;  ///< the message, if this is its last piece
};

/// One end of a connection: which one, and which side. Never names a later connection.
struct end_ref {
  std::uint64_t value = 0;  ///< slot (32 bits), generation (31), side (1); 0 names none

  CAUSEWAY_DECL static end_ref make(std::uint32_t slot, std::uint32_t generation, unsigned side);
  [[nodiscard]] std::uint32_t slot() const noexcept { return static_cast<std::uint32_t>(value >> 32U); }
  [[nodiscard]] std::uint32_t generation() const noexcept { return static_cast<std::uint32_t>(value) >> 1U; }
  [[nodiscard]] unsigned side() const noexcept { return static_cast<unsigned>(value & 1U); }
  [[nodiscard]] end_ref other() const noexcept { return {value ^ 1U}; }
  friend bool operator==(const end_ref&, const end_ref&) = default;
};

/// Whose sockets they are. Called only while the host's process can run; never for an end that it closed itself.
class socket_owner {
 public:
  virtual ~socket_owner() = default;
  /// A dial succeeded: `end` is ours. `tag` is what the dial was given.
  virtual void on_connected(end_ref end, std::uint64_t tag) = 0;
  virtual void on_refused(std::uint64_t tag, const error& why) = 0;
  virtual void on_message(end_ref end, sent_message_ptr message) = 0;
  virtual void on_closed(end_ref end, const error& why) = 0;
  /// The last piece of a message is on the wire. Comes at any time, also from inside a call of ours.
  virtual void on_sent(end_ref end, std::uint32_t operation) = 0;
};

/// One way of a connection.
struct flow {
  enum class state : std::uint8_t { idle, ready, paced };  ///< ready: queued at the uplink; paced: an event will go on

  host_index from = no_host;
  host_index to = no_host;
  link* there = nullptr;
  link* back = nullptr;
  std::array<queue<sent_message_ptr>, lanes> waiting;
  queue<piece> wire;      ///< between uplink and downlink, in the order of arrival
  queue<piece> held;      ///< arrived where the line is a black hole
  queue<piece> arriving;  ///< in the downlink
  queue<piece> unread;    ///< in the kernel of a stopped process
  state now = state::idle;
  bool paused = false;     ///< the receiver has no room for data
  bool releasing = false;  ///< an event will let `held` out
  time_point last_arrival;
  time_point last_delivery;
  time_point next_start;          ///< no piece starts before: the connection's own rate
  std::uint64_t outstanding = 0;  ///< bytes on their way and not acknowledged
  std::uint64_t unread_bytes = 0;
  std::uint64_t unacknowledged = 0;  ///< taken in without an acknowledgement, for want of room or of a way back
  double cap = unlimited;            ///< bytes/s; from here on worked out from the line, as of `version`
  std::uint64_t window = 0;
  std::uint64_t version = 0;
};

struct connection {
  struct end {
    socket_owner* owner = nullptr;
    bool open = false;
  };

  std::uint32_t generation = 1;
  bool used = false;
  bool broken = false;  ///< nothing travels any more but the news of it
  bool silent = false;  ///< one side lost power: the other hears nothing
  std::string why;      ///< what the side that ended it gave as reason
  std::array<end, 2> ends;
  std::array<flow, 2> flows;  ///< [s]: from ends[s] to the other
};

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/sim/impl/connection.ipp>
#endif

#endif  // CAUSEWAY_SIM_CONNECTION_HPP
