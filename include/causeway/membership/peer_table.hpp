// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_PEER_TABLE_HPP
#define CAUSEWAY_MEMBERSHIP_PEER_TABLE_HPP

// What the parts of a protocol share: the peers met so far, the acceptor, and the way out. A message to ourselves waits in
// a queue until the current event is done, so that a leader is a member like any other.

#include <causeway/core/clock.hpp>
#include <causeway/membership/acceptor.hpp>
#include <causeway/membership/messages.hpp>
#include <causeway/membership/situation.hpp>
#include <causeway/net/deadline.hpp>

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

// How quickly the term of a peer may grow. Terms are numbered through once in the life of a run, so whoever could make them
// jump could end it. Honest terms grow by about one for each election: they pass at once. A larger jump passes as well, but
// only after as many heartbeats as it is too large, so that no honest peer is shut out for ever.

/// A regular value. Forgets everything with the process.
class term_limit {
 public:
  explicit term_limit(duration heartbeat) : heartbeat_{heartbeat} {}

  /// Whether a term may become `wanted` now where `known` is the highest that is beyond doubt. If so, the growth is spent.
  CAUSEWAY_DECL bool allow(std::uint32_t known, std::uint32_t wanted, time_point now);

  /// Growth that needs no wait.
  static constexpr std::uint64_t burst = 64;

 private:
  CAUSEWAY_DECL [[nodiscard]] std::uint64_t beats(duration d) const;

  CAUSEWAY_DECL void refill(time_point now);

  static constexpr int longest_between = 16;  // a candidate asks again after 9 at most

  duration heartbeat_;
  std::uint64_t saved_ = burst;
  time_point filled_;
  time_point refused_since_;
  time_point last_refused_;
};

/// What we know of one peer. Down, and nothing said, in the beginning.
struct peer_entry {
  std::string address;
  bool up = false;
  time_point heard;               ///< when it last said anything
  net::arrival_statistics beats;  ///< between its answers to heartbeats, or between its heartbeats
  std::uint32_t last_beat = 0;    ///< number of the last one
  time_point beat_at;             ///< when it came

  position word;          ///< the newest commit it has named on this connection
  confirmation answer;    ///< its last answer to an inquiry on this connection
  bool answered = false;  ///< an inquiry, on this connection
  bool asks = false;      ///< waits for our word on a commit that we did not know when it asked

  // As its leader sees it.
  std::optional<report> said;     ///< on this connection
  std::uint64_t holds_round = 0;  ///< the newest round whose state it has told us to hold
  std::uint64_t rounds_told = 0;  ///< the newest round it was told on this connection
  time_point told_at;             ///< when that was
  ballot told_floor;              ///< the newest abort it was told on this connection
  ballot told_adoption;
  std::uint64_t renewed_for = 0;  ///< the round for which a new term was taken because of it
  std::uint32_t rounds_down = 0;  ///< commits since it was last up
  std::uint32_t wasted = 0;       ///< graces in a row that it did not use
  std::uint32_t unwaited = 0;     ///< rounds that are not held up for it
  std::uint32_t exclusions = 0;   ///< one less after `sound_rounds` rounds without trouble
  std::uint32_t sound = 0;        ///< rounds that it voted for since the last exclusion, or since one was forgiven
  std::uint32_t unvoted = 0;      ///< rounds in a row that it took part in and did not vote for
  std::uint32_t pause = 0;        ///< attempts that it still sits out

  void was_told(std::uint64_t round, time_point now) {
    rounds_told = round + 1;
    told_at = now;
  }
};

/// Shared by the parts of one protocol.
class peer_table {
 public:
  CAUSEWAY_DECL peer_table(options o, durable_record record, effects& fx);

  options settings;
  acceptor votes;
  effects* const out;
  const net::peer_id self;
  time_point now;
  std::map<net::peer_id, peer_entry> peers;  ///< ourselves included
  std::deque<message> to_self;
  std::set<std::string> seeds;   ///< addresses that this peer was started with
  std::set<net::peer_id> roots;  ///< who told us of the run when we knew nobody of it
  net::peer_id vouched = 0;      ///< the leader that somebody we believe pointed to

  /// Whether its word counts: a member of the newest view known, or whom this peer has promised to follow, who was one.
  CAUSEWAY_DECL [[nodiscard]] bool believed(net::peer_id id) const;
  /// Whether it may lead: the leader need not be a member any more, and is then known through those who follow it.
  [[nodiscard]] bool may_lead(net::peer_id id) const { return votes.newest().known() && (believed(id) || id == vouched); }
  /// Whether this peer has met it in the run before, or was sent to it.
  CAUSEWAY_DECL [[nodiscard]] bool acquainted(net::peer_id id) const;

  /// Where this peer was sent, but for its own address.
  CAUSEWAY_DECL [[nodiscard]] std::set<std::string> other_seeds() const;
  CAUSEWAY_DECL [[nodiscard]] bool all_seeds_answered() const;

  /// The highest term that is beyond doubt.
  CAUSEWAY_DECL [[nodiscard]] std::uint32_t known_term() const;
  /// Whether this term may be promised now; a jump is counted.
  bool allow_term(std::uint32_t term, net::peer_id from) { return allow_term(term, from, known_term()); }
  CAUSEWAY_DECL bool allow_term(std::uint32_t term, net::peer_id from, std::uint32_t known);
  /// Whether a term that somebody names is near enough to be answered with a higher one.
  CAUSEWAY_DECL [[nodiscard]] bool near(std::uint32_t term) const;

  CAUSEWAY_DECL [[nodiscard]] peer_entry& entry(net::peer_id id);

  CAUSEWAY_DECL [[nodiscard]] const peer_entry* find(net::peer_id id) const;

  CAUSEWAY_DECL [[nodiscard]] bool up(net::peer_id id) const;

  /// From the peer itself, or from others who met it; empty where nobody said.
  CAUSEWAY_DECL [[nodiscard]] std::string address_of(net::peer_id id) const;

  /// Those of `who` whose address is known.
  CAUSEWAY_DECL [[nodiscard]] std::vector<located_peer> places_of(const std::vector<net::peer_id>& who) const;

  /// As said by leaders, not as seen from here: all who took part have the same.
  CAUSEWAY_DECL [[nodiscard]] std::string remembered_address(net::peer_id id) const;

  /// For a leader: which addresses of the view others cannot have heard of, and a name for all of them.
  CAUSEWAY_DECL void say_places(go& m) const;

  /// Keeps where peers are, ourselves not among them; written with the next durable step.
  CAUSEWAY_DECL void remember(std::vector<located_peer> met);

  /// C of the newest commit known; nobody where none is known.
  CAUSEWAY_DECL [[nodiscard]] const std::vector<net::peer_id>& members() const;

  /// The members for which `test(id, entry)` holds. Entries of members exist: see remember_members.
  template <class Test>
  [[nodiscard]] std::vector<net::peer_id> members_that(Test test) const {
    std::vector<net::peer_id> chosen;
    for (const net::peer_id id : members()) {
      const peer_entry* p = find(id);
      if (p != nullptr && test(id, *p)) chosen.push_back(id);
    }
    return chosen;
  }

  /// At most `most` of the peers that have voted for `value`: they hold its state.
  CAUSEWAY_DECL [[nodiscard]] std::vector<located_peer> voters_for(const commit_record& value, std::size_t most) const;

  CAUSEWAY_DECL [[nodiscard]] std::vector<net::peer_id> others_up() const;

  CAUSEWAY_DECL [[nodiscard]] bool quorum_up() const;

  /// Whether it has promised somebody else a term of ours or above.
  CAUSEWAY_DECL [[nodiscard]] bool promised_elsewhere(const peer_entry& p) const;
  /// As far as a leader knows: a quorum is within reach that has promised nothing to anybody else.
  CAUSEWAY_DECL [[nodiscard]] bool quorum_follows() const;

  /// Nothing leaves a peer whose record could not be written.
  CAUSEWAY_DECL void post(net::peer_id to, const message& m);

  /// The same bytes to many.
  CAUSEWAY_DECL void post_all(const std::vector<net::peer_id>& to, const message& m);

  CAUSEWAY_DECL void reject(reject_reason why, net::peer_id from);
  [[nodiscard]] std::uint64_t rejected(reject_reason why) const { return rejected_[static_cast<std::size_t>(why)]; }

  /// Some peers that others may ask: those within reach first.
  CAUSEWAY_DECL [[nodiscard]] std::vector<located_peer> some_peers(std::size_t limit) const;

  CAUSEWAY_DECL void note_leads(std::uint32_t term);

  /// Dials a few of those who were here once, others each time: they may be unable to find us, and what they hold waits for
  /// them. `called`: how many before; gives that of the next time.
  CAUSEWAY_DECL [[nodiscard]] std::size_t call_the_lost(std::size_t called);

 private:
  static constexpr std::size_t called_at_once = 8;

  static bool by_peer(const located_peer& p, net::peer_id id) { return p.peer < id; }

  std::array<std::uint64_t, reject_reasons> rejected_{};
  term_limit terms_;
  std::uint32_t highest_allowed_ = 0;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/impl/peer_table.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_PEER_TABLE_HPP
