// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_ROLL_CALL_HPP
#define CAUSEWAY_MEMBERSHIP_ROLL_CALL_HPP

// Who answers a leader's heartbeats. A machine that loses its power says nothing, and its connections stand until its
// silence has lasted for seconds. Of hundreds of peers, one often has just gone in that way: an attempt that it is let into
// hangs for as long. The others have answered the last heartbeat by then, so it can be left out of this one.

#include <causeway/membership/peer_table.hpp>
#include <causeway/net/deadline.hpp>

#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

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

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/impl/roll_call.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_ROLL_CALL_HPP
