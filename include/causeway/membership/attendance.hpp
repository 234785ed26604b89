// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_ATTENDANCE_HPP
#define CAUSEWAY_MEMBERSHIP_ATTENDANCE_HPP

// Who could take part in a leader's next attempt, whether that is enough, and until when the others are waited for.

#include <causeway/membership/attempt.hpp>
#include <causeway/membership/decision.hpp>
#include <causeway/membership/peer_table.hpp>
#include <causeway/membership/roll_call.hpp>
#include <causeway/membership/takeover.hpp>
#include <causeway/membership/transfer/transfer_time.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

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
