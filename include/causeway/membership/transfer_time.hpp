// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_TIME_HPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_TIME_HPP

// For how long a leader holds a round back for peers that cannot fetch the state as quickly as rounds follow each other.

#include <causeway/core/clock.hpp>
#include <causeway/net/fabric.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace causeway::inline CAUSEWAY_ABI::membership::detail {

/// While n peers wait for one more they lose what that one would bring in n times as long. So a wait may take 1/2n of the
/// time since the last one ended; twice as much time must pass each time that it was in vain for the peer that asks.
class transfer_time {
 public:
  transfer_time() = default;
  /// Nobody has waited since `now`; `beat`: what news takes at most.
  transfer_time(time_point now, duration beat) : last_{now}, beat_{beat} {}

  /// A peer needs so long from now on. A time of 0 does not count. While it is waited for, it may turn out to need more:
  /// a round was committed meanwhile. It gets as much as it would have been given at once.
  void ask(net::peer_id id, duration needs, time_point now) {
    if (needs <= duration{0}) return;
    entry& e = asked_[id];
    needs = std::min(needs, longest);
    if (!e.until) {
      e.needs = needs;
    } else {
      e.until = std::max(*e.until, std::min(now + wait_for(needs), e.latest));
    }
  }

  /// A round could begin with `ready` peers, but without this one. What it is given from now on, if it is.
  [[nodiscard]] std::optional<duration> give(net::peer_id id, std::size_t ready, time_point now) {
    const auto at = asked_.find(id);
    if (at == asked_.end() || at->second.until || at->second.needs == duration{0}) return std::nullopt;
    entry& e = at->second;
    const auto shares = static_cast<duration::rep>(2 * std::max<std::size_t>(ready, 1)) << std::min(e.in_vain, 6U);
    const duration most = (now - last_) / shares;
    if (e.needs > most) return std::nullopt;
    e.until = now + wait_for(e.needs);
    e.latest = now + wait_for(most);
    return e.needs;
  }

  /// Until when the round is held back for it; `now`: no longer.
  [[nodiscard]] time_point until(net::peer_id id, time_point now) {
    const auto at = asked_.find(id);
    if (at == asked_.end() || !at->second.until) return now;
    if (*at->second.until > now) return *at->second.until;
    at->second = {duration{0}, std::nullopt, {}, at->second.in_vain + 1};
    last_ = now;
    return now;
  }

  /// A round begins with it.
  void took_part(net::peer_id id, time_point now) {
    const auto at = asked_.find(id);
    if (at == asked_.end()) return;
    if (at->second.until) last_ = now;
    asked_.erase(at);
  }

  /// Its connection ended. How often it was waited for in vain stays known.
  void forget(net::peer_id id, time_point now) {
    const auto at = asked_.find(id);
    if (at == asked_.end()) return;
    const bool waited = at->second.until.has_value();
    if (waited) last_ = now;
    at->second = {duration{0}, std::nullopt, {}, at->second.in_vain + (waited ? 1U : 0U)};
    if (at->second.in_vain == 0) asked_.erase(at);
  }

 private:
  static constexpr duration longest = std::chrono::hours{4};

  struct entry {
    duration needs{0};
    std::optional<time_point> until;
    time_point latest;  ///< that `until` may become
    unsigned in_vain = 0;
  };

  [[nodiscard]] duration wait_for(duration needs) const { return needs * 3 / 2 + beat_; }

  std::map<net::peer_id, entry> asked_;
  time_point last_;
  duration beat_{0};
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_TIME_HPP
