// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_EVIDENCE_HPP
#define CAUSEWAY_MEMBERSHIP_EVIDENCE_HPP

// When a commit that somebody tells is believed. A peer that knows a view counts the word of its members only, its own vote
// included: two of them are enough, or one that is a quorum alone. Where nobody else answers, one word is enough after a
// while, unless those who do answer rule the commit out. A newcomer, who knows no view, wants two words as well where it
// was sent to several. docs/design/membership.md says what this holds against.

#include <causeway/core/rng.hpp>
#include <causeway/membership/peer_table.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

/// A commit that others told of.
struct told_commit {
  commit_record record;
  std::optional<ledger> samples;  ///< after it; none: it follows the newest known
  certificate votes;
  std::vector<located_peer> holders;
  std::uint64_t chain = 0;
  std::set<net::peer_id> tellers;
  time_point since{};  ///< nobody has ruled out what its teller says since then
  position told_in{};  ///< the newest commit known when it was told last
};

/// Keeps what is not believed yet, and asks other members for their word. Cost of an event: O(members) while something is.
class evidence {
 public:
  CAUSEWAY_DECL explicit evidence(peer_table& t);

  /// `from` tells a commit. Strangers are counted and not heard.
  CAUSEWAY_DECL void told(net::peer_id from, const commit_record& record, const certificate& votes, const ledger* samples,
                          std::vector<located_peer> holders);

  /// `from` names the newest commit that it knows, in whatever message: that is its word for it.
  CAUSEWAY_DECL void heard(net::peer_id from, const position& newest);
  /// It answers an inquiry.
  CAUSEWAY_DECL void heard(net::peer_id from, const confirmation& m);

  CAUSEWAY_DECL void peer_up(net::peer_id id);

  /// A commit that may be taken for a fact now; each is given once. More words are asked for where there is none.
  CAUSEWAY_DECL std::optional<told_commit> believed();

  [[nodiscard]] time_point next_wake() const noexcept { return told_.empty() ? no_deadline : next_; }

 private:
  static constexpr std::size_t most_told = 4;

  /// Every round takes a ballot, and they grow: so many lie between. Who takes part in a round has promised its term, so a
  /// later round has no quorum in an earlier one.
  CAUSEWAY_DECL [[nodiscard]] bool in_time(const commit_record& record) const;

  CAUSEWAY_DECL told_commit& entry(net::peer_id from, std::uint64_t chain, const commit_record& record,
                                   const certificate& votes);

  /// Once a later commit is known, doubts about earlier ones are over, and those about later ones begin anew.
  CAUSEWAY_DECL void forget_the_past();

  CAUSEWAY_DECL [[nodiscard]] bool convinced(told_commit& c);

  /// A newcomer believes whom it was sent to, and only if nobody answers at that address under that name, anybody. Where it
  /// was sent to more than one, two have to say the same; or one says it, those who answer know of no other commit, and
  /// who might has had the time to come up.
  CAUSEWAY_DECL [[nodiscard]] bool from_a_root(const told_commit& c) const;

  /// Who says that it is committed, as far as somebody can tell who knows no members.
  CAUSEWAY_DECL [[nodiscard]] std::vector<net::peer_id> newcomers_voices(const told_commit& c) const;

  CAUSEWAY_DECL [[nodiscard]] static bool supports(const peer_entry& p, const told_commit& c);

  /// It told of this, and names an earlier commit since.
  CAUSEWAY_DECL [[nodiscard]] bool took_back(net::peer_id id, const told_commit& c) const;
  CAUSEWAY_DECL [[nodiscard]] bool all_took_back(const told_commit& c) const;

  /// Whether another member that is here tells something else. Who is right shows once two say the same.
  CAUSEWAY_DECL [[nodiscard]] bool disputed(const told_commit& c) const;

  /// A word counts among the members among whom it was given: of five, two may be left afterwards, and one of them be a
  /// quorum alone. Who told before is asked again.
  CAUSEWAY_DECL [[nodiscard]] bool said_in_this_view(const told_commit& c) const;

  /// Whose word counts and is for it; our own vote is a word.
  CAUSEWAY_DECL [[nodiscard]] std::vector<net::peer_id> voices(const told_commit& c) const;

  /// Whether those who do not say that they are without a vote for it could have been a quorum.
  CAUSEWAY_DECL [[nodiscard]] bool possible(const told_commit& c) const;

  /// Whether it could come after what is known. Only more than one word can show that two histories exist.
  CAUSEWAY_DECL [[nodiscard]] bool follows(const told_commit& c) const;

  CAUSEWAY_DECL [[nodiscard]] bool somebody_here(net::peer_id but) const;

  /// Longer than what cuts somebody off for a while: a machine that starts again, a line that is down.
  [[nodiscard]] duration patience() const { return 6 * t_.settings.silence.cap; }

  CAUSEWAY_DECL [[nodiscard]] inquiry question() const;

  /// Two who are within reach, the same ones each time; then, where that was not enough, everybody in turn.
  CAUSEWAY_DECL void ask();

  /// A newcomer does not know whom to ask.
  CAUSEWAY_DECL void ask_anybody();
  static constexpr std::size_t asked_by_newcomers = 8;

 public:
  /// What this peer says when it is asked.
  CAUSEWAY_DECL [[nodiscard]] confirmation answer() const;

  /// To somebody who asks, now and again once more is known.
  CAUSEWAY_DECL void reply(net::peer_id to, const inquiry& m);
  CAUSEWAY_DECL void tell_who_asked();

 private:
  peer_table& t_;
  std::vector<told_commit> told_;
  position base_;
  bool changed_ = false;
  bool asked_ = false;
  net::peer_id alone_with_ = 0;  ///< whose word was enough for want of others
  time_point next_;
  std::size_t start_;
  std::size_t turn_ = 0;
  std::size_t dialled_ = 0;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/impl/evidence.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_EVIDENCE_HPP
