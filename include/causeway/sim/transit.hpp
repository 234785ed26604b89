// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_TRANSIT_HPP
#define CAUSEWAY_SIM_TRANSIT_HPP

// How bytes get from host to host. A sender's uplink serves its flows in turn, a piece each; a piece leaves at the uplink's
// rate or at its connection's, whichever is lower, and reaches the receiver's downlink one latency later. Downlinks serve
// pieces in the order in which their first bits arrive, and start before the last bit is there, so a message alone on its
// way takes exactly latency + bytes / bandwidth. Two events per message of one piece.
//
// A flow has at most a window of bytes on its way (twice rate times round trip, and some), so that a fast sender cannot
// queue a whole model at a slow receiver. Losses and black holes delay, as they do under TCP; nothing overtakes.

#include <causeway/core/rng.hpp>
#include <causeway/sim/connection.hpp>
#include <causeway/sim/host_clock.hpp>
#include <causeway/sim/links.hpp>
#include <causeway/sim/options.hpp>
#include <causeway/sim/scheduler.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

/// Why the process of a host stands still. Several causes may be there at a time.
enum standstill : std::uint8_t {
  stopped = 1,   ///< SIGSTOP
  disk_held = 2  ///< it waits for its disk with the lock held that all its events need
};

/// A host as its network card and its kernel are: there whether or not a process runs.
struct machine {
  CAUSEWAY_DECL explicit machine(std::shared_ptr<const time_point> now);

  host_options options;
  host_clock clock;
  bool powered = true;
  std::uint8_t frozen = 0;  ///< why its process stands still (see `standstill`); what concerns it waits in `backlog`
  time_point frozen_since;
  duration frozen_total{0};
  std::deque<std::function<void()>> backlog;
  std::map<std::uint32_t, socket_owner*> listeners;
  std::vector<end_ref> ends;  ///< of its connections; some of them may be over
  std::size_t tidy_ends_at = 16;
  queue<end_ref> ready;  ///< flows that want the uplink
  bool serving = false;  ///< an event will serve them
  time_point up_free;
  time_point down_free;
  std::uint32_t locks = 0;             ///< fabrics of its process whose lock the process holds
  time_point disk_until;               ///< what is posted meanwhile leaves then: see world::wait_for_disk
  duration* aside = nullptr;           ///< what the disk takes counts here: work that nobody waits for
  std::uint32_t boots = 0;             ///< processes so far
  std::uint64_t most_connections = 0;  ///< beyond it no dial and no accept works; 0: no limit
  double no_memory = 0;                ///< part of the messages that cannot be taken in
};

class transit {
 public:
  CAUSEWAY_DECL transit(const world_options& options, scheduler& events);
  transit(const transit&) = delete;
  transit& operator=(const transit&) = delete;

  [[nodiscard]] link_map& links() noexcept { return links_; }
  [[nodiscard]] rng& random() noexcept { return random_; }
  [[nodiscard]] message_pool& pool() noexcept { return pool_; }
  [[nodiscard]] machine& at(host_index host) { return machines_[host]; }
  [[nodiscard]] std::uint32_t hosts() const noexcept { return static_cast<std::uint32_t>(machines_.size()); }

  CAUSEWAY_DECL void add_host(const host_options& options);

  /// The connection that an end belongs to, if it still exists.
  CAUSEWAY_DECL [[nodiscard]] connection* find(end_ref e);

  /// A connection from `from` (side 0) to `to` (side 1).
  CAUSEWAY_DECL end_ref connect(host_index from, socket_owner* dialer, host_index to, socket_owner* listener);

  /// Calls `visit(connection, end)` for each end at `host`, open or not, of the connections that are not over.
  template <class F>
  void for_each_end(host_index host, F&& visit) {
    machine& m = machines_[host];
    tidy(m);
    const std::vector<end_ref> ends = m.ends;  // visiting one may end another
    for (const end_ref e : ends) {
      if (connection* const c = find(e); c != nullptr) visit(*c, e);
    }
  }

  void free_if_over(end_ref e);

  [[nodiscard]] std::size_t open_connections() const noexcept { return connections_.size() - free_.size(); }

  /// Nothing that is on its way arrives any more.
  CAUSEWAY_DECL void clear(connection& c);

  /// What is on its way but control messages is lost, and nobody notices yet.
  CAUSEWAY_DECL void lose_data(connection& c);

  /// A draw. Nothing is drawn for what cannot happen, so that a fault changes no history but its own.
  [[nodiscard]] bool happens(double chance) { return chance > 0 && static_cast<double>(random_.uniform()) < chance; }

  CAUSEWAY_DECL [[nodiscard]] duration up_to(duration most);

  CAUSEWAY_DECL [[nodiscard]] std::size_t connections_of(host_index host);

  /// Whether the host has no descriptor left for another connection.
  CAUSEWAY_DECL [[nodiscard]] bool is_full(host_index host);

  CAUSEWAY_DECL void send(end_ref e, sent_message_ptr message);

  /// Gives up a message whose last piece is not on the wire yet. The receiver is told if it has seen a part of it.
  CAUSEWAY_DECL void abort(end_ref e, std::uint32_t operation);

  /// The receiver at `e` has no room for data, or has it again.
  CAUSEWAY_DECL void pause(end_ref e, bool yes);

  CAUSEWAY_DECL void freeze(host_index host, standstill why = standstill::stopped);

  CAUSEWAY_DECL void thaw(host_index host, unsigned causes = standstill::stopped);

  /// `what` happens in the host's process: now, or when it runs again.
  template <class F>
  void dispatch(host_index host, F&& what) {
    if (machines_[host].frozen) {
      machines_[host].backlog.emplace_back(std::forward<F>(what));
    } else {
      what();
    }
  }

  /// A line carries packets again: what it held back comes out when its senders try again.
  CAUSEWAY_DECL void healed(host_index from, host_index to, duration black);

  /// Senders that meet a black hole try again ever less often.
  CAUSEWAY_DECL duration retry_delay(duration black);

  /// One way, one packet.
  CAUSEWAY_DECL duration flight_time(const link& l);

  /// A whole message came to the end `e` (the receiver's), or a goodbye.
  std::function<void(end_ref, sent_message_ptr)> on_delivery;

 private:
  CAUSEWAY_DECL void enter(machine& m, end_ref e);

  CAUSEWAY_DECL void tidy(machine& m);

  CAUSEWAY_DECL std::uint32_t free_slot();

  CAUSEWAY_DECL static queue<sent_message_ptr>* next_lane(flow& f);

  CAUSEWAY_DECL void refresh(flow& f);

  CAUSEWAY_DECL void pump(flow& f, end_ref e);

  /// Queues a flow at its uplink, if there is something that it may send.
  CAUSEWAY_DECL bool enqueue(flow& f, end_ref e);

  CAUSEWAY_DECL void go_on(end_ref e);

  CAUSEWAY_DECL void serve(host_index host);

  CAUSEWAY_DECL void transmit(connection& c, flow& f, end_ref e);

  CAUSEWAY_DECL duration loss_delay(const flow& f, std::uint64_t bytes);

  CAUSEWAY_DECL void arrive(end_ref e);

  CAUSEWAY_DECL void enter_downlink(flow& f, end_ref e, piece p);

  CAUSEWAY_DECL void release(end_ref e);

  CAUSEWAY_DECL void deliver(end_ref e);

  CAUSEWAY_DECL void read(end_ref e);

  CAUSEWAY_DECL void take(flow& f, end_ref e, piece p);

  CAUSEWAY_DECL void acknowledge(flow& f, end_ref e, std::uint64_t bytes);

  const world_options& options_;
  scheduler& events_;
  link_map links_;
  rng random_;
  message_pool pool_;  // before all that holds messages
  std::deque<machine> machines_;
  std::deque<connection> connections_;  // they stay where they are
  std::vector<std::uint32_t> free_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/sim/impl/transit.ipp>
#endif

#endif  // CAUSEWAY_SIM_TRANSIT_HPP
