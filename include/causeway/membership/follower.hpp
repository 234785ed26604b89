// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_FOLLOWER_HPP
#define CAUSEWAY_MEMBERSHIP_FOLLOWER_HPP

// What every peer does, the leader included: it follows one leader, offers its trainer's work, takes part, votes, and
// learns commits. It decides nothing for others.

#include <causeway/membership/evidence.hpp>
#include <causeway/membership/peer_table.hpp>
#include <causeway/membership/proposal.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

class follower {
 public:
  CAUSEWAY_DECL explicit follower(peer_table& t);

  // ---- what the trainer says -------------------------------------------------------------------------------------------

  CAUSEWAY_DECL void holds(std::uint64_t round, std::uint64_t state);

  CAUSEWAY_DECL void ready(std::uint64_t round, std::uint64_t parent, std::uint64_t samples);

  /// So many it has now, and goes on training.
  CAUSEWAY_DECL void announce(std::uint64_t round, std::uint64_t parent, std::uint64_t samples);

  /// The trainer has the result of the exchange at `at`, and its own part in it is used up: until it has voted or failed,
  /// whatever would end the attempt has to wait. False: it is over already.
  CAUSEWAY_DECL bool completed(ballot at);

  /// Whether this message would end an attempt whose vote is on its way.
  template <class Message>
  [[nodiscard]] bool must_wait(const Message& m) const {
    if (!completing_) return false;
    if constexpr (std::is_same_v<Message, heartbeat> || std::is_same_v<Message, campaign>) {
      return m.term > floor().term;
    } else {
      return std::is_same_v<Message, go> || std::is_same_v<Message, adoption> || std::is_same_v<Message, abort_attempt>;
    }
  }

  CAUSEWAY_DECL void voted(ballot at, std::uint64_t round, std::uint64_t state);

  CAUSEWAY_DECL void failed(ballot at, errc why, const std::vector<net::peer_id>& suspects);

  CAUSEWAY_DECL void unusable(ballot at);

  CAUSEWAY_DECL void leave();

  // ---- what others say -----------------------------------------------------------------------------------------------

  CAUSEWAY_DECL void on(net::peer_id from, const heartbeat& m);

  CAUSEWAY_DECL void on(net::peer_id from, const campaign& m);

  CAUSEWAY_DECL void on(net::peer_id from, const go& m);

  CAUSEWAY_DECL void on(net::peer_id from, const address_list& m);

  CAUSEWAY_DECL void on(net::peer_id from, const abort_attempt& m);

  CAUSEWAY_DECL void on(net::peer_id from, const adoption& m);

  CAUSEWAY_DECL void on(net::peer_id from, const holder_list& m);

  CAUSEWAY_DECL void on(net::peer_id from, const exclusion& m);

  CAUSEWAY_DECL void on(net::peer_id from, const farewell& m);

  /// A new run: round 0 is committed by founding it. Samples are handed out by the first round that peers make together, so
  /// that the others need not wait for what the founder has begun alone.
  CAUSEWAY_DECL void found(std::uint64_t state);

  // ---- leader ----------------------------------------------------------------------------------------------------------

  CAUSEWAY_DECL void follow(net::peer_id id);

  CAUSEWAY_DECL void lose_leader();

  /// In a public function of the protocol, at its end: tells the leader what changed, drops what a promise ended.
  CAUSEWAY_DECL void report_changes();

  void say() { report_due_ = true; }

  /// Gives up a leader that has been silent for too long. True: it did.
  CAUSEWAY_DECL bool check_silence();
  void forgive() { beat_at_ = t_.now; }

  /// A commit is believed. True: it is new.
  CAUSEWAY_DECL bool learn(const told_commit& c);

  /// Whoever knows less is told what we know, for each connection and commit once, and now and again while it does not
  /// believe it.
  CAUSEWAY_DECL void tell_newer(net::peer_id to, const position& known, std::vector<located_peer> holders = {});

  CAUSEWAY_DECL [[nodiscard]] guide make_guide() const;

  CAUSEWAY_DECL [[nodiscard]] report make_report(std::uint32_t beat = 0);

  // ---- to look at ------------------------------------------------------------------------------------------------------

  [[nodiscard]] net::peer_id leader() const noexcept { return leader_; }
  [[nodiscard]] net::peer_id lost_leader() const noexcept { return lost_; }
  [[nodiscard]] time_point leaderless_since() const noexcept { return leaderless_since_; }
  [[nodiscard]] bool has_left() const noexcept { return left_; }
  [[nodiscard]] bool is_ready() const noexcept { return ready_; }
  [[nodiscard]] const std::string& excluded() const noexcept { return excluded_; }
  [[nodiscard]] const heartbeat& last_beat() const noexcept { return beat_; }
  /// The leader says that all peers together have the samples of the round.
  [[nodiscard]] bool enough() const { return leader_ != 0 && beat_.enough && beat_.newest == newest(); }
  [[nodiscard]] const std::optional<go>& current() const noexcept { return current_; }
  [[nodiscard]] const std::optional<adoption>& adopting() const noexcept { return adopting_; }
  [[nodiscard]] const std::vector<located_peer>& holders() const noexcept { return holders_; }
  CAUSEWAY_DECL [[nodiscard]] bool holds_newest() const;
  /// Voted in this process for the round after the newest commit, and waits for what becomes of it. Who is no member
  /// decides nothing: once a later ballot has begun, it begins anew as well.
  CAUSEWAY_DECL [[nodiscard]] bool waits_for_commit() const;
  /// All that we know, and that we hold it: the leader, who knows more holders, may be gone.
  CAUSEWAY_DECL [[nodiscard]] sync catch_up() const;

 private:
  [[nodiscard]] const position& newest() const { return t_.votes.newest(); }
  [[nodiscard]] const ballot& floor() const { return t_.votes.durable().floor; }
  CAUSEWAY_DECL [[nodiscard]] duration patience() const;

  CAUSEWAY_DECL [[nodiscard]] bool has_voted(ballot at) const;

  /// A leader that reaches a quorum and was heard of lately is not deposed for one that somebody else cannot reach.
  CAUSEWAY_DECL [[nodiscard]] bool leader_is_well() const;

  /// Whether `from` may make proposals at `at`. If not, it is told where we stand.
  CAUSEWAY_DECL bool authority(net::peer_id from, ballot at);

  /// Whoever sent it is told where we stand.
  CAUSEWAY_DECL void refuse_term(net::peer_id from, reject_reason why);

  CAUSEWAY_DECL [[nodiscard]] std::optional<reject_reason> check(const go& m) const;

  CAUSEWAY_DECL void enter(go m);

  /// Addresses of the view: the news, and what is known here. False: not the same that the leader has.
  CAUSEWAY_DECL [[nodiscard]] bool fill_in(go& m);

  /// `fresh`: on the trainer's word, who has the state at hand and nothing left to exchange.
  CAUSEWAY_DECL bool vote_for(ballot at, const commit_record& value, bool fresh);

  /// Says that this peer will never vote in `at`, after making sure of it.
  CAUSEWAY_DECL void refuse(ballot at, errc why, const std::vector<net::peer_id>& suspects);

  /// The next durable write carries where the others are: after a restart it may be all we know.
  CAUSEWAY_DECL void meet(const view& who);

  /// If a promise ended the attempt: ready again is who says so afterwards, and a trainer that hangs in it never does.
  CAUSEWAY_DECL bool end_attempt();

  CAUSEWAY_DECL void learned(std::vector<located_peer> holders);

  peer_table& t_;
  std::uint64_t sequence_ = 0;
  bool report_due_ = false;

  net::peer_id leader_ = 0;
  net::peer_id lost_ = 0;  ///< the leader before
  time_point leaderless_since_;
  time_point beat_at_;
  heartbeat beat_;
  std::optional<std::pair<net::peer_id, heartbeat>> early_beat_;  ///< came before its sender was known to be a member

  std::optional<std::pair<std::uint64_t, std::uint64_t>> held_;  ///< round, state hash
  bool ready_ = false;
  std::uint64_t samples_ = 0;
  bool leaving_ = false;
  bool left_ = false;

  std::optional<go> current_;
  ballot ended_;                ///< the last attempt that ended without this peer's vote
  std::optional<go> unplaced_;  ///< waits for addresses
  std::string seen_at_;         ///< where the leader sees this peer, if elsewhere
  std::optional<adoption> adopting_;
  bool completing_ = false;
  std::uint64_t voted_chain_ = 0;  ///< the last value voted for by this process, on the trainer's word
  std::vector<located_peer> holders_;
  std::string excluded_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/impl/follower.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_FOLLOWER_HPP
