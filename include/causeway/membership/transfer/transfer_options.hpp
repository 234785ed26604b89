// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_OPTIONS_HPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_OPTIONS_HPP

// Between the state transfer and whoever drives it: how it is set up, and what it wants done.

#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/net/deadline.hpp>
#include <causeway/net/fabric.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

/// Waits are learned (net/deadline.hpp); what stands here are their floors, and their values before anything was learned.
struct transfer_options {
  // A donor: what is on its way and was not acknowledged is memory of the sender.
  std::size_t outstanding_per_peer = std::size_t{8} << 20U;
  std::size_t outstanding_total = std::size_t{64} << 20U;  ///< every peer gets one message all the same
  std::size_t max_queue = 64;                              ///< requests kept per peer; what is asked beyond is dropped
  std::size_t max_peers = 256;                             ///< peers served at once
  std::uint64_t seed = 0;  ///< makes tickets hard to guess: a number that nobody else can know

  // A fetcher.
  unsigned max_window = 32;                          ///< requests out per holder
  duration first_answer = std::chrono::seconds{10};  ///< how long the first holder ever asked may be silent
  net::arrival_options arrival{.floor = std::chrono::milliseconds{500}, .cap = std::chrono::seconds{60}};
  unsigned max_overdue = 8;  ///< when every holder was overdue so often in a row, the transfer has failed
  unsigned max_bad = 2;      ///< wrong chunks or manifests from one holder before it is asked no more
  duration retry = std::chrono::milliseconds{250};  ///< first pause before a holder that is not there yet is asked again
  unsigned max_retries = 8;                         ///< at doubling pauses
  duration lost_after = std::chrono::seconds{10};   ///< without any holder within reach
};

/// What a donor or a fetcher wants done. Called from inside their functions; must not call back into them. The names keep
/// clear of membership::effects, so that one class can be both.
struct transfer_effects {
  virtual ~transfer_effects() = default;
  /// A bulk control message to a peer that is up; lost without notice where the connection breaks.
  virtual void transfer_send(net::peer_id to, std::vector<std::byte> message) = 0;
  /// Call the fetcher's wake then; replaces what was asked for before. no_deadline: never.
  virtual void transfer_wake_at(time_point when) = 0;
  virtual void transfer_log(severity, std::string_view) {}
};

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_OPTIONS_HPP
