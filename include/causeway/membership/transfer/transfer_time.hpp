// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_TIME_HPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_TIME_HPP

// For how long a leader holds a round back for peers that cannot fetch the state as quickly as rounds follow each other.

#include <causeway/core/clock.hpp>
#include <causeway/net/fabric.hpp>

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

/// What a peer needs the next round to be held back for.
struct transfer_need {
  duration takes{0};
  /// 0: the transfer waits until the time is given. Otherwise it is under way, and a wait longer than this is not worth it.
  duration worth{0};
};

namespace detail {

/// While n peers wait for one more they lose what that one would bring in n times as long. So a wait may take 1/2n of the
/// time since the last one ended; twice as much time must pass each time that it was in vain for the peer that asks.
class transfer_time {
 public:
  transfer_time() = default;
  /// Nobody has waited since `now`; `beat`: what news takes at most.
  CAUSEWAY_DECL transfer_time(time_point now, duration beat);

  /// A peer needs time; 0 does not count. While it is waited for, it may turn out to need more: a round was committed
  /// meanwhile. It gets as much as it would have been given at once.
  CAUSEWAY_DECL void ask(net::peer_id id, const transfer_need& needs, time_point now);

  /// A round could begin with `ready` peers, but without this one. What it is given from now on, if it is.
  CAUSEWAY_DECL [[nodiscard]] std::optional<duration> give(net::peer_id id, std::size_t ready, time_point now);

  /// Until when the round is held back for it; `now`: no longer.
  CAUSEWAY_DECL [[nodiscard]] time_point until(net::peer_id id, time_point now);

  /// A round begins with it.
  CAUSEWAY_DECL void took_part(net::peer_id id, time_point now);

  /// Its connection ended. How often it was waited for in vain stays known.
  CAUSEWAY_DECL void forget(net::peer_id id, time_point now);

 private:
  static constexpr duration longest = std::chrono::hours{4};

  struct entry {
    transfer_need needs{};
    time_point asked_at{};
    std::optional<time_point> until{};
    time_point latest{};  ///< that `until` may become
    unsigned in_vain = 0;
  };

  [[nodiscard]] duration wait_for(duration needs) const { return needs * 3 / 2 + beat_; }

  std::map<net::peer_id, entry> asked_;
  time_point last_;
  duration beat_{0};
};

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/transfer/impl/transfer_time.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_TIME_HPP
