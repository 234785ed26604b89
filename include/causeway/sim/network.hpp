// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_NETWORK_HPP
#define CAUSEWAY_SIM_NETWORK_HPP

// The sockets of a simulated cluster: who listens, who dials, how connections are made and how they end. A connection is
// reliable and in order until it ends. Ended with a goodbye, what was sent before still arrives; reset, everything on its
// way is lost, and the other side hears of it one latency later.

#include <causeway/core/error.hpp>
#include <causeway/sim/connection.hpp>
#include <causeway/sim/transit.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

class network {
 public:
  CAUSEWAY_DECL network(const world_options& options, scheduler& events);
  network(const network&) = delete;
  network& operator=(const network&) = delete;

  [[nodiscard]] transit& wires() noexcept { return transit_; }
  [[nodiscard]] machine& at(host_index host) { return transit_.at(host); }
  [[nodiscard]] const world_options& options() const noexcept { return options_; }
  [[nodiscard]] scheduler& events() noexcept { return events_; }

  CAUSEWAY_DECL void add_host(const host_options& options);
  CAUSEWAY_DECL [[nodiscard]] host_index host_called(const std::string& name) const;

  CAUSEWAY_DECL void listen(host_index host, std::uint32_t port, socket_owner* owner);

  /// Tells `owner` on_connected or on_refused, with `tag`. The SYN, its answer and what the dialer then says take one and
  /// a half round trips, and a random delay on top (world_options::connect_delay_*).
  CAUSEWAY_DECL std::uint64_t dial(host_index from, socket_owner* owner, std::uint64_t tag, host_index to,
                                   std::uint32_t port);

  void cancel_dial(std::uint64_t number) { forget(number); }

  /// Lost where the connection is over.
  CAUSEWAY_DECL void send(end_ref e, sent_message_ptr message);

  /// Ends a connection from one side. That side hears no more of it; the other does.
  CAUSEWAY_DECL void close(end_ref e, const std::string& why, bool with_goodbye);

  /// Ends everything that `owner` has: its connections, its dials, its ports.
  CAUSEWAY_DECL void drop(const socket_owner* owner, host_index host, const std::string& why, bool with_goodbye);

  /// Whether the other side still holds its end: what a real peer finds out by comparing incarnations.
  CAUSEWAY_DECL [[nodiscard]] bool far_end_open(end_ref e);

  [[nodiscard]] bool blocked(host_index from, host_index to) { return transit_.links().between(from, to).blocked(); }

  /// Nothing arrives from `from` at `to` any more, until as many unblock calls.
  CAUSEWAY_DECL void block(host_index from, host_index to);

  CAUSEWAY_DECL void unblock(host_index from, host_index to);

  /// One of the TCP streams of each connection between the two dies: what it carried is lost, control messages still come
  /// until the host `a` notices, a round trip later, and ends the link.
  CAUSEWAY_DECL void lose_stream(host_index a, host_index b);

  /// What befalls control messages that arrive at the end `e`.
  CAUSEWAY_DECL [[nodiscard]] bool befalls(mishap what, end_ref e);

  /// Tells the process at the other side of a connection from its earlier and later ones. 0: the connection is over.
  CAUSEWAY_DECL [[nodiscard]] std::uint64_t far_process(end_ref e);

  /// The machine goes dark: nobody is told, nothing answers.
  CAUSEWAY_DECL void power_off(host_index host);

  /// It answers again: with a reset, to those who still think that they are connected.
  CAUSEWAY_DECL void power_on(host_index host);

 private:
  struct attempt {
    socket_owner* owner = nullptr;
    std::uint64_t tag = 0;
    host_index from = 0;
    host_index to = 0;
    std::uint32_t port = 0;
    std::uint32_t tries = 0;
    scheduler::ticket deadline = 0;
    scheduler::ticket retry = 0;
  };

  CAUSEWAY_DECL void forget(std::uint64_t number);

  CAUSEWAY_DECL attempt* find_attempt(std::uint64_t number);

  /// A SYN; again after 1, 3, 7 s while nothing comes back.
  CAUSEWAY_DECL void knock(std::uint64_t number, duration extra);

  CAUSEWAY_DECL void answer(std::uint64_t number);

  CAUSEWAY_DECL void establish(std::uint64_t number);

  CAUSEWAY_DECL void conclude(std::uint64_t number, const error& why);

  CAUSEWAY_DECL void delivered(end_ref e, sent_message_ptr message);

  /// The smallest change of the last value, whatever its type.
  CAUSEWAY_DECL static void alter(std::vector<std::byte>& bytes);

  /// The side `e` ends its connection and is told why; the other hears of it.
  CAUSEWAY_DECL void give_up(end_ref e, const std::string& why);

  /// The side `e` has ended a connection; the news goes its way.
  CAUSEWAY_DECL void tell_other_side(const connection& c, end_ref e, duration extra);

  /// The end `e` learns that its connection is over.
  CAUSEWAY_DECL void end_of(end_ref e);

  const world_options& options_;
  scheduler& events_;
  transit transit_;
  std::map<std::string, host_index> by_name_;
  std::map<std::uint64_t, attempt> attempts_;
  std::uint64_t last_attempt_ = 0;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/sim/impl/network.ipp>
#endif

#endif  // CAUSEWAY_SIM_NETWORK_HPP
