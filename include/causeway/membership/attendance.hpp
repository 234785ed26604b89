// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_ATTENDANCE_HPP
#define CAUSEWAY_MEMBERSHIP_ATTENDANCE_HPP

// Who could take part in a leader's next attempt, whether that is enough, and until when the others are waited for.

#include <causeway/core/clock.hpp>
#include <causeway/membership/attempt.hpp>
#include <causeway/membership/peer_table.hpp>
#include <causeway/membership/proposal.hpp>
#include <causeway/net/deadline.hpp>
#include <causeway/net/fabric.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

// For how long a leader holds a round back for peers that cannot fetch the state as quickly as rounds follow each other.

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

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

// Who answers a leader's heartbeats. A machine that loses its power says nothing, and its connections stand until its
// silence has lasted for seconds. Of hundreds of peers, one often has just gone in that way: an attempt that it is let into
// hangs for as long. The others have answered the last heartbeat by then, so it can be left out of this one.

/// The last two calls, and how long answers take. Regular; for the leader alone, who answers itself.
class roll_call {
 public:
  explicit roll_call(duration every) : times_{{.floor = every / 2, .cap = every}} {}

  CAUSEWAY_DECL void called(time_point now);
  /// Somebody answers the last call.
  void answered(time_point now) noexcept { times_.observe(now - last_); }

  /// By when whoever is there has answered the last call.
  [[nodiscard]] time_point due() const noexcept { return times_.deadline(last_); }
  /// The first of them that has not answered the last call yet; 0: nobody.
  CAUSEWAY_DECL [[nodiscard]] net::peer_id owes_answer(const peer_table& t, const std::vector<net::peer_id>& who) const;
  /// It should have answered by now. It may only be slow: nothing that lasts follows from that.
  CAUSEWAY_DECL [[nodiscard]] bool is_overdue(const peer_table& t, net::peer_id id) const;
  /// It has said nothing from one call to the next.
  [[nodiscard]] bool has_missed(const peer_table& t, net::peer_id id) const { return silent_since(t, id, before_); }

 private:
  CAUSEWAY_DECL static bool silent_since(const peer_table& t, net::peer_id id, time_point call);

  net::arrival_statistics times_;
  time_point before_;
  time_point last_;
};

/// Of one leader. Not thread-safe.
class attendance {
 public:
  CAUSEWAY_DECL explicit attendance(peer_table& t);

  wait_times waits;
  roll_call calls;
  transfer_time transfers;
  std::uint32_t term = 0;       ///< that we lead
  ballot barrier;               ///< statements count from peers barred below it: above all our ballots in this round
  net::peer_id blocker = 0;     ///< somebody we wait for: until it moves, others need not be looked at; 0: nobody
  bool enough_samples = false;  ///< all peers together have those of the round

  /// A quorum promised us the term of our floor.
  CAUSEWAY_DECL void begin();

  CAUSEWAY_DECL void begin_round();

  /// An attempt begins with these; `again`: the one before at this round failed. Counts for those that it begins without.
  CAUSEWAY_DECL void began(const std::vector<net::peer_id>& who, bool again);

  // ---- one peer --------------------------------------------------------------------------------------------------------

  CAUSEWAY_DECL [[nodiscard]] bool follows_us(const peer_entry& p) const;
  /// It can never vote in a ballot of ours below `barrier` any more, and told what it voted for before.
  CAUSEWAY_DECL [[nodiscard]] bool usable(const peer_entry& p) const;

  /// Whether a peer has said since the last attempt that it is ready for another.
  [[nodiscard]] auto is_ready() const {
    return [this](net::peer_id id) {
      const peer_entry* p = t_.find(id);
      return p != nullptr && usable(*p) && p->said->ready;
    };
  }

  /// Whether one more peer that is ready could end the waiting.
  CAUSEWAY_DECL [[nodiscard]] bool matters(net::peer_id from) const;

  // ---- all of them -----------------------------------------------------------------------------------------------------

  /// Members first, in their order, then the others: the first of them breaks ties of a quorum.
  CAUSEWAY_DECL [[nodiscard]] std::vector<net::peer_id> participants(bool paused_too) const;

  CAUSEWAY_DECL [[nodiscard]] bool enough(const std::vector<net::peer_id>& who) const;

  /// At least half of the peers here that have something to train. A quorum of the members may be far fewer where the last
  /// round was made without many; rounds would get ever smaller, and ever more.
  CAUSEWAY_DECL [[nodiscard]] bool are_most(const std::vector<net::peer_id>& who) const;

  /// Peers that train have less than a round between them, and `who` would begin without some.
  CAUSEWAY_DECL [[nodiscard]] bool gathers_on(const std::vector<net::peer_id>& who) const;

  /// Until when the peers that usually come are waited for. `now` or earlier: nobody is missing.
  CAUSEWAY_DECL [[nodiscard]] time_point wait_for_others(const std::vector<net::peer_id>& who);

 private:
  [[nodiscard]] std::size_t least_peers() const { return std::max(t_.settings.min_peers, 1U); }
  /// Who must have come before the first round. They need not all be there at one time: of many, some are always gone.
  [[nodiscard]] std::size_t first_peers() const { return t_.votes.newest().round == 0 ? t_.settings.expected : 0; }

  CAUSEWAY_DECL [[nodiscard]] bool can_take_part(net::peer_id id, const peer_entry& p) const;

  /// Neither a member nor somebody who was one and is late.
  CAUSEWAY_DECL [[nodiscard]] bool is_newcomer(net::peer_id id) const;

  /// How many of the peers here that usually come are not in `in`.
  CAUSEWAY_DECL [[nodiscard]] std::size_t late_peers(const std::set<net::peer_id>& in) const;

  /// Until when this round stands still for the transfer of one peer; `now`: it does not.
  CAUSEWAY_DECL time_point time_for_transfer(net::peer_id id, std::size_t ready);

  peer_table& t_;
  std::size_t look_again_at_ = 0;  ///< so many are ready: half of those who were late then have come
};

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/impl/attendance.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_ATTENDANCE_HPP
