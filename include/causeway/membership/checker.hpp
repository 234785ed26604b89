// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_CHECKER_HPP
#define CAUSEWAY_MEMBERSHIP_CHECKER_HPP

// Says whether histories of peers can be those of one correct run. It shares no decision with the protocol: it only knows
// what must be true afterwards. Online it takes events as they happen, offline the histories that processes wrote.
//
//   one record for each round; its parent is the record before; voted for by a quorum of the members before, in one ballot
//   no peer's commits, floors or votes go back, also not across restarts; one leader for each term and round
//   no sample in two commits or skipped; every contribution is what its peer trained on, in the ledger's order
//   data only from the current attempt, on top of the own committed state

#include <causeway/membership/history.hpp>
#include <causeway/membership/ledger.hpp>
#include <causeway/membership/records.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

/// Feed it events in the order in which they happened, those of one peer at least in that peer's order. Cost of an event:
/// O(log) of what was seen; of a round's first commit O(members · log).
class checker {
 public:
  CAUSEWAY_DECL explicit checker(std::uint64_t quota = 0, std::uint64_t budget = 0);

  /// What is wrong with this event after all before it, or nothing.
  CAUSEWAY_DECL [[nodiscard]] std::optional<std::string> check(const event& e);

  /// The histories of all peers, one after the other or merged: clocks of different machines need not agree.
  CAUSEWAY_DECL [[nodiscard]] static std::optional<std::string> check_all(std::span<const event> events,
                                                                          std::uint64_t quota = 0,
                                                                          std::uint64_t budget = 0);

  /// The histories of a run that was founded on a commit of another (refound), together with those of the other: what the
  /// other did after that commit does not count. `before` may be a branch itself.
  CAUSEWAY_DECL [[nodiscard]] static std::vector<event> branch_of(std::span<const event> before,
                                                                  std::span<const event> branch);

  /// Whether some round was first committed after `from`, and not later than `until`.
  CAUSEWAY_DECL [[nodiscard]] bool progressed(time_point from, time_point until) const;

  [[nodiscard]] std::size_t rounds() const noexcept { return records_.size(); }
  /// After the newest round.
  [[nodiscard]] const ledger& samples() const noexcept { return ledger_; }

 private:
  using verdict = std::optional<std::string>;

  struct record {
    std::uint64_t chain = 0;
    std::uint64_t state = 0;
    std::vector<net::peer_id> members;
  };

  /// What a peer must remember.
  struct memory {
    ballot floor;
    net::peer_id promised_to = 0;
    std::uint64_t round = 0;
    std::uint64_t chain = 0;     ///< 0: knows no commit
    std::uint64_t accepted = 0;  ///< chain of its vote for the round after
    std::map<ballot, std::uint64_t> votes;
  };

  CAUSEWAY_DECL [[nodiscard]] verdict judge(const event& e);

  /// What was written in the instant of a crash may be new to us, but nothing may be missing.
  CAUSEWAY_DECL verdict judge_boot(const event& e, memory& m);

  CAUSEWAY_DECL static verdict judge_promise(const event& e, memory& m);

  CAUSEWAY_DECL static verdict judge_bar(const event& e, memory& m);

  CAUSEWAY_DECL verdict judge_lead(const event& e);

  CAUSEWAY_DECL verdict judge_vote(const event& e, memory& m);

  CAUSEWAY_DECL void count_vote(std::uint64_t round, std::uint64_t chain, ballot at, net::peer_id peer);

  CAUSEWAY_DECL verdict judge_commit(const event& e, memory& m);

  /// What concerns the record, whoever learned it.
  CAUSEWAY_DECL verdict judge_record(const event& e);

  CAUSEWAY_DECL bool voted_for(const event& e, const std::vector<net::peer_id>& members) const;

  CAUSEWAY_DECL verdict judge_samples(const event& e);

  /// Only asked of peers whose driver says what it trained on.
  CAUSEWAY_DECL bool trained_on(const event& e, net::peer_id peer, const std::vector<std::uint64_t>& numbers) const;

  CAUSEWAY_DECL static verdict judge_held(const event& e, const memory& m, const std::map<std::uint64_t, record>& records);

  CAUSEWAY_DECL static verdict judge_update(const event& e, const memory& m);

  /// Numbers as joined ranges.
  struct number_set {
    std::map<std::uint64_t, std::uint64_t> ranges;  ///< first, end
    std::uint64_t count = 0;

    CAUSEWAY_DECL bool insert(std::uint64_t n);
  };

  ledger ledger_;
  number_set done_;
  std::map<std::uint64_t, record> records_;
  std::map<net::peer_id, memory> peers_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::map<ballot, std::set<net::peer_id>>> votes_;  ///< round, chain
  std::set<std::uint64_t> refounded_;                                                                  ///< chains
  std::map<std::pair<std::uint32_t, std::uint64_t>, net::peer_id> leaders_;                            ///< term, round
  std::map<std::tuple<net::peer_id, std::uint64_t, std::uint64_t>, std::vector<std::vector<sample_range>>> trained_;
  std::vector<time_point> commit_times_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/impl/checker.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_CHECKER_HPP
