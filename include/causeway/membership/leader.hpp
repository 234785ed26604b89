// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_LEADER_HPP
#define CAUSEWAY_MEMBERSHIP_LEADER_HPP

// What a leader decides: who takes part in the next attempt and when it begins, when it has failed, and when a round is
// committed. It may be wrong about anybody's health without harm: only quorums of votes commit (proposal.hpp,
// acceptor.hpp).

#include <causeway/membership/attempt.hpp>
#include <causeway/membership/attendance.hpp>
#include <causeway/membership/blame.hpp>
#include <causeway/membership/follower.hpp>
#include <causeway/membership/peer_table.hpp>
#include <causeway/membership/proposal.hpp>

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

class leader {
 public:
  CAUSEWAY_DECL leader(peer_table& t, follower& f);

  /// A quorum promised us the term of our floor.
  CAUSEWAY_DECL void begin();

  void stand_down() { active_ = false; }

  /// The newest commit changed: a new round is to be made.
  CAUSEWAY_DECL void begin_round();

  // ---- what peers say --------------------------------------------------------------------------------------------------

  /// `from` has reported; `news`: something else than the last time.
  CAUSEWAY_DECL void on(net::peer_id from, bool news);

  CAUSEWAY_DECL void on(net::peer_id from, const vote& m);

  CAUSEWAY_DECL void on(net::peer_id from, const failure& m);

  /// Who has not said that it follows us would take part in no round that waits for it.
  CAUSEWAY_DECL void asked_for_time(net::peer_id from, const transfer_need& needs);

  CAUSEWAY_DECL void peer_up(net::peer_id id);

  CAUSEWAY_DECL void peer_down(net::peer_id id);

  // ---- what time says --------------------------------------------------------------------------------------------------

  CAUSEWAY_DECL void wake();

  CAUSEWAY_DECL [[nodiscard]] time_point next_wake() const;

  /// After every event. True: this leader needs a higher term to lead somebody who promised one to another.
  CAUSEWAY_DECL bool decide();

  void touch() { changed_ = true; }

  // ---- to look at ------------------------------------------------------------------------------------------------------

  /// Some of those who have the newest state, others for each who asks.
  CAUSEWAY_DECL [[nodiscard]] holder_list holders_for(net::peer_id id) const;

  [[nodiscard]] bool active() const noexcept { return active_; }
  /// Of our last attempt, or else the members.
  CAUSEWAY_DECL [[nodiscard]] const std::vector<net::peer_id>& last_view() const;
  [[nodiscard]] const std::string& waiting_for() const noexcept { return waiting_; }
  [[nodiscard]] bool stuck() const noexcept { return stuck_; }
  /// All peers together have the samples of the round.
  [[nodiscard]] bool enough_samples() const noexcept { return there_.enough_samples; }
  CAUSEWAY_DECL [[nodiscard]] std::string describe(time_point now) const;

 private:
  // -- between attempts

  /// Whether decide() could come to another result. In a big run most reports say that one more peer is ready while others
  /// are waited for, and looking at everybody each time would cost n^2.
  CAUSEWAY_DECL [[nodiscard]] bool matters(net::peer_id from, const peer_entry& p) const;

  /// Adds up what peers have, and calls all of them once it is enough.
  CAUSEWAY_DECL void count_samples();

  CAUSEWAY_DECL bool gather();

  /// A new term is needed to lead it. Only once in a round for a peer that the round can be made without: who says so again
  /// and again would stop the run.
  CAUSEWAY_DECL [[nodiscard]] bool needs_new_term(net::peer_id id, const peer_entry& p) const;
  CAUSEWAY_DECL void take_new_term();

  /// Who leaves may go once the run can go on without it: a quorum of the members knows the commit that left it out. Or
  /// when all leave, and nobody is here who would go on.
  CAUSEWAY_DECL void let_go();

  CAUSEWAY_DECL [[nodiscard]] std::vector<statement> statements(const std::vector<net::peer_id>& heard) const;

  /// A value that does not bind is proposed again only if there are too few to make the round anew.
  CAUSEWAY_DECL [[nodiscard]] bool adoptable(const proposal_rule& rule) const;

  CAUSEWAY_DECL void begin_adoption(const commit_record& wanted);

  CAUSEWAY_DECL [[nodiscard]] bool concerns(net::peer_id id, const commit_record& value) const;

  CAUSEWAY_DECL [[nodiscard]] adoption adoption_notice() const;

  CAUSEWAY_DECL void try_go();

  CAUSEWAY_DECL bool awaits_answers();

  CAUSEWAY_DECL void go_with(const std::vector<net::peer_id>& who);

  // -- during an attempt

  CAUSEWAY_DECL void judge();

  CAUSEWAY_DECL void give_up();

  CAUSEWAY_DECL void commit(std::uint64_t state);

  // -- heartbeats

  CAUSEWAY_DECL [[nodiscard]] heartbeat make_beat() const;

  CAUSEWAY_DECL void beat();

  CAUSEWAY_DECL void drop_silent();

  CAUSEWAY_DECL void say_waiting(const char* what, const std::vector<net::peer_id>& have);

  static constexpr std::size_t holders_told = 8;

  peer_table& t_;
  follower& follower_;
  bool active_ = false;
  ballot next_;  ///< of the next attempt
  attempt attempt_;
  blame blame_;
  attendance there_;
  std::uint32_t failures_ = 0;  ///< attempts at this round
  std::set<std::uint64_t> failed_adoptions_;
  time_point next_beat_;
  time_point go_at_ = no_deadline;
  takeover takeover_;
  std::uint32_t number_ = 0;
  std::size_t called_ = 0;
  std::string waiting_;
  bool stuck_ = false;
  bool changed_ = true;       ///< something that decide() looks at
  bool undecided_ = false;    ///< those who reported cannot say what may be proposed: others are needed
  bool values_seen_ = false;  ///< somebody voted for this round already
};

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/impl/leader.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_LEADER_HPP
