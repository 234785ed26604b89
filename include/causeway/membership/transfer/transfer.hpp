// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_HPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_HPP

// Both sides of the state transfer as one object, for a driver that hands it the fabric's events.

#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/membership/transfer/transfer_catch_up.hpp>
#include <causeway/membership/transfer/transfer_donor.hpp>
#include <causeway/membership/transfer/transfer_fetcher.hpp>
#include <causeway/membership/transfer/transfer_options.hpp>
#include <causeway/membership/transfer/transfer_wire.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

/// Thread safety: none; the fabric's lock serves.
class state_transfer {
 public:
  /// `fx` must outlive this object.
  CAUSEWAY_DECL explicit state_transfer(transfer_effects& fx, const transfer_options& options = {});

  void peer_up(net::peer_id peer, time_point now) { taking.peer_up(peer, now); }
  CAUSEWAY_DECL void peer_down(net::peer_id peer, time_point now);

  /// A control message for which is_transfer_message holds. errc::corrupt, errc::too_large, errc::protocol: it is
  /// malformed, or asks for what the state it names does not have; nothing was done, and no peer of ours sends such a
  /// thing.
  CAUSEWAY_DECL result<void> message(net::peer_id from, std::span<const std::byte> bytes, time_point now);

  CAUSEWAY_DECL void wake(time_point now);

  [[nodiscard]] std::uint64_t malformed() const noexcept { return malformed_; }

  donor giving;
  fetcher taking;
  kept_states keeping;
  kept_for_us kept;

 private:
  std::uint64_t malformed_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/transfer/impl/transfer.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_HPP
