// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_ENGINE_HPP
#define CAUSEWAY_NET_ASIO_ENGINE_HPP

// What transports and fabrics over TCP have in common: links, operations on them, the event loop with its heartbeat, and
// one lock that guards all state. Who the peers are and how links come and go is for whoever derives from it.

#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/asio_library.hpp>
#include <causeway/net/asio_link.hpp>
#include <causeway/net/asio_loop.hpp>
#include <causeway/net/descriptors.hpp>
#include <causeway/net/epochs.hpp>
#include <causeway/net/memory_budget.hpp>
#include <causeway/net/operations.hpp>
#include <causeway/net/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

class engine {
 public:
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  CAUSEWAY_DECL operation start(pending_operation what);

  CAUSEWAY_DECL result<std::size_t> wait(operation handle, time_point deadline);

  CAUSEWAY_DECL [[nodiscard]] bool done(operation handle) const;

  CAUSEWAY_DECL bool wait_any(std::span<const operation> handles, time_point deadline);

  CAUSEWAY_DECL void interrupt();

  CAUSEWAY_DECL [[nodiscard]] traffic stats() const;

  CAUSEWAY_DECL [[nodiscard]] std::size_t streams(peer_index peer) const;

  CAUSEWAY_DECL [[nodiscard]] std::string describe_waits() const;

 protected:
  /// `sender`: what our frames name as their sender.
  CAUSEWAY_DECL engine(std::unique_ptr<asio::io_context> io, std::uint64_t run_id, std::uint32_t sender,
                       transport_options options);
  ~engine() = default;

  /// Starts the heartbeat and the background thread. Needs the lock.
  CAUSEWAY_DECL void run();

  /// Says goodbye to everybody, waits up to the grace for theirs, and ends the background thread. Gives the lock up; after
  /// that nobody but the caller is here. False if it was called before.
  CAUSEWAY_DECL bool shut_down(std::unique_lock<std::mutex>& lock);

  /// Ends operations of epochs before `epoch`. Needs the lock.
  CAUSEWAY_DECL void end_epochs_before(std::uint32_t epoch);

  /// Once per heartbeat interval, with the lock held, after the links' ticks.
  virtual void tick(duration) {}

  // The loop comes before the links: their sockets must go before it does.
  mutable link_context shared_;
  event_loop loop_;
  std::vector<std::unique_ptr<link>> links_;
  past_epochs past_;
  bool closed_ = false;
  bool interrupted_ = false;

 private:
  CAUSEWAY_DECL [[nodiscard]] error epoch_over(peer_index peer) const;

  CAUSEWAY_DECL void time_out(slot_index slot);

  CAUSEWAY_DECL void arm_timer();

  CAUSEWAY_DECL static std::string tenths(double s);

  timer timer_;
  time_point last_tick_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/asio_engine.ipp>
#endif

#endif  // CAUSEWAY_NET_ASIO_ENGINE_HPP
