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

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::membership {

/// Feed it events in the order in which they happened, those of one peer at least in that peer's order. Cost of an event:
/// O(log) of what was seen; of a round's first commit O(members · log).
class checker {
 public:
  explicit checker(std::uint64_t quota = 0, std::uint64_t budget = 0) : ledger_{quota, budget} {}

  /// What is wrong with this event after all before it, or nothing.
  [[nodiscard]] std::optional<std::string> check(const event& e) {
    const std::optional<std::string> wrong = judge(e);
    if (!wrong) return std::nullopt;
    return *wrong + "\n  at: " + to_line(e);
  }

  /// The histories of all peers, one after the other or merged: clocks of different machines need not agree.
  [[nodiscard]] static std::optional<std::string> check_all(std::span<const event> events, std::uint64_t quota = 0,
                                                            std::uint64_t budget = 0) {
    checker c{quota, budget};
    std::vector<const event*> commits;
    for (const event& e : events) {
      if (e.what == event::accept) c.count_vote(e.round, e.hash, e.at, e.peer);
      if (e.what == event::boot && e.hash != 0) c.count_vote(e.round + 1, e.hash, e.voted, e.peer);
      if (e.what == event::refound) c.refounded_.insert(e.chain);
      if (e.what == event::trained) c.trained_[{e.peer, e.round, e.parent}].push_back(e.ranges);
      if (e.what == event::commit) commits.push_back(&e);
    }
    std::stable_sort(commits.begin(), commits.end(), [](auto* a, auto* b) { return a->round < b->round; });
    for (const event* e : commits) {
      if (auto wrong = c.judge_record(*e)) return *wrong + "\n  at: " + to_line(*e);
    }
    for (const event& e : events) {
      if (auto wrong = c.check(e)) return wrong;
    }
    return std::nullopt;
  }

  /// The histories of a run that was founded on a commit of another (refound), together with those of the other: what the
  /// other did after that commit does not count. `before` may be a branch itself.
  [[nodiscard]] static std::vector<event> branch_of(std::span<const event> before, std::span<const event> branch) {
    std::vector<event> all;
    const auto founding =
        std::find_if(branch.begin(), branch.end(), [](const event& e) { return e.what == event::refound; });
    const std::uint64_t end = founding == branch.end() ? 0 : founding->round;
    for (const event& e : before) {
      const bool of_a_round = e.what == event::lead || e.what == event::accept || e.what == event::commit ||
                              e.what == event::held || e.what == event::trained || e.what == event::update_accepted;
      const bool later = e.what == event::boot ? e.round >= end : of_a_round && e.round >= end;
      if (!later) all.push_back(e);
    }
    all.insert(all.end(), branch.begin(), branch.end());
    return all;
  }

  /// Whether some round was first committed after `from`, and not later than `until`.
  [[nodiscard]] bool progressed(time_point from, time_point until) const {
    return std::any_of(commit_times_.begin(), commit_times_.end(), [&](time_point t) { return from < t && t <= until; });
  }

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

  [[nodiscard]] verdict judge(const event& e) {
    memory& m = peers_[e.peer];
    switch (e.what) {
      case event::boot: return judge_boot(e, m);
      case event::promise: return judge_promise(e, m);
      case event::bar: return judge_bar(e, m);
      case event::lead: return judge_lead(e);
      case event::accept: return judge_vote(e, m);
      case event::commit: return judge_commit(e, m);
      case event::held: return judge_held(e, m, records_);
      case event::refound: refounded_.insert(e.chain); return std::nullopt;
      case event::trained: trained_[{e.peer, e.round, e.parent}].push_back(e.ranges); return std::nullopt;
      case event::update_accepted: return judge_update(e, m);
      case event::reject:
      case event::left: return std::nullopt;
    }
    return "an event of no kind";
  }

  /// What was written in the instant of a crash may be new to us, but nothing may be missing.
  verdict judge_boot(const event& e, memory& m) {
    if (e.at < m.floor) return "a promise was forgotten in a restart";
    if (m.chain != 0 && (e.round < m.round || (e.round == m.round && e.chain != m.chain))) {
      return "a commit was forgotten in a restart";
    }
    const bool same_round = m.chain == e.chain;
    const ballot last = m.votes.empty() ? ballot{} : m.votes.rbegin()->first;
    if (same_round && e.hash != m.accepted && (e.hash == 0 || e.voted <= last)) return "a vote was forgotten in a restart";
    m.floor = e.at;
    m.promised_to = e.from;
    m.round = e.round;
    m.chain = e.chain;
    m.accepted = e.hash;
    if (e.hash != 0 && m.votes.try_emplace(e.voted, e.hash).second) count_vote(e.round + 1, e.hash, e.voted, e.peer);
    return std::nullopt;
  }

  static verdict judge_promise(const event& e, memory& m) {
    if (e.at.term < m.floor.term) return "a promise went back";
    if (e.at.term == m.floor.term && e.from != m.promised_to) return "one term was promised to two peers";
    m.floor = std::max(m.floor, e.at);
    m.promised_to = e.from;
    return std::nullopt;
  }

  static verdict judge_bar(const event& e, memory& m) {
    if (e.at < m.floor || e.at.term != m.floor.term) return "a floor went back, or left its term";
    m.floor = e.at;
    return std::nullopt;
  }

  verdict judge_lead(const event& e) {
    const auto [at, fresh] = leaders_.try_emplace({e.at.term, e.round}, e.peer);
    if (!fresh && at->second != e.peer) return "two leaders won one term for one round";
    return std::nullopt;
  }

  verdict judge_vote(const event& e, memory& m) {
    if (e.at < m.floor || e.at.term != m.floor.term) return "a vote below what was promised";
    if (e.round != m.round + 1 || e.parent != m.chain) return "a vote that does not follow the peer's newest commit";
    const auto [at, fresh] = m.votes.try_emplace(e.at, e.hash);
    if (!fresh && at->second != e.hash) return "two votes in one ballot";
    m.floor = e.at;
    m.accepted = e.hash;
    count_vote(e.round, e.hash, e.at, e.peer);
    return std::nullopt;
  }

  void count_vote(std::uint64_t round, std::uint64_t chain, ballot at, net::peer_id peer) {
    votes_[{round, chain}][at].insert(peer);
  }

  verdict judge_commit(const event& e, memory& m) {
    if (m.chain != 0 && e.round < m.round) return "a peer's commits went back";
    if (verdict wrong = judge_record(e)) return wrong;
    if (m.chain == e.chain) return std::nullopt;  // said again after a restart
    m.round = e.round;
    m.chain = e.chain;
    m.accepted = 0;
    return std::nullopt;
  }

  /// What concerns the record, whoever learned it.
  verdict judge_record(const event& e) {
    const auto known = records_.find(e.round);
    if (known != records_.end()) {
      const bool same = known->second.chain == e.chain && known->second.state == e.hash;
      return same ? verdict{} : "two different records of one round";
    }
    if (e.round > 0) {
      const auto before = records_.find(e.round - 1);
      if (before == records_.end()) return "the round before was never committed";
      if (before->second.chain != e.parent) return "the parent is not the record of the round before";
      const bool decided = refounded_.contains(e.chain) || voted_for(e, before->second.members);
      if (!decided) return "committed without a quorum of votes in one ballot";
    }
    if (verdict wrong = judge_samples(e)) return wrong;
    records_[e.round] = {e.chain, e.hash, e.members};
    commit_times_.push_back(e.at_time);
    return std::nullopt;
  }

  bool voted_for(const event& e, const std::vector<net::peer_id>& members) const {
    const auto votes = votes_.find({e.round, e.chain});
    if (votes == votes_.end()) return false;
    return std::any_of(votes->second.begin(), votes->second.end(), [&](const auto& b) {
      return is_quorum(members, {b.second.begin(), b.second.end()});
    });
  }

  verdict judge_samples(const event& e) {
    commit_record r;
    r.members = e.members;
    r.contributions = e.contributions;
    r.returned = e.returned;
    if (e.round == 0) {  // the founding hands nothing out
      return ledger_.hash() == e.ledger ? verdict{} : "the ledger of this commit is another one";
    }
    if (!ledger_.fits(r)) return "somebody contributed more samples than it held";
    for (const contribution& c : e.contributions) {
      const std::vector<std::uint64_t> numbers = ledger_.take(c.peer, 0, c.samples);
      for (const std::uint64_t n : numbers) {
        if (!done_.insert(n)) return "sample " + std::to_string(n) + " is in two commits";
      }
      if (ledger_.quota() > 0 && !trained_on(e, c.peer, numbers)) {
        return "peer " + std::to_string(c.peer) + " contributed other samples than it trained on";
      }
    }
    ledger_.apply(r);
    if (ledger_.hash() != e.ledger) return "the ledger of this commit is another one";
    if (ledger_.quota() > 0 && done_.count != ledger_.done()) return "samples were skipped";
    return std::nullopt;
  }

  /// Only asked of peers whose driver says what it trained on.
  bool trained_on(const event& e, net::peer_id peer, const std::vector<std::uint64_t>& numbers) const {
    const auto said = trained_.find({peer, e.round, e.parent});
    if (said == trained_.end()) {
      const auto any = trained_.lower_bound({peer, 0, 0});
      return any == trained_.end() || std::get<0>(any->first) != peer;
    }
    return std::any_of(said->second.begin(), said->second.end(), [&](const std::vector<sample_range>& ranges) {
      std::vector<std::uint64_t> all;
      for (const sample_range& r : ranges) {
        for (std::uint64_t i = 0; i < r.count; ++i) all.push_back(r.first + i);
      }
      return all == numbers;
    });
  }

  static verdict judge_held(const event& e, const memory& m, const std::map<std::uint64_t, record>& records) {
    const auto known = records.find(e.round);
    if (e.round > m.round || known == records.end()) return "a state was held of a round that was not committed";
    if (known->second.state != e.hash) return "a state was held that is not the committed one";
    return std::nullopt;
  }

  static verdict judge_update(const event& e, const memory& m) {
    if (e.at < m.floor || e.at.term != m.floor.term) return "data of another attempt was let in";
    if (e.parent != m.chain || e.round != m.round + 1) return "data with another parent was let in";
    return std::nullopt;
  }

  /// Numbers as joined ranges.
  struct number_set {
    std::map<std::uint64_t, std::uint64_t> ranges;  ///< first, end
    std::uint64_t count = 0;

    bool insert(std::uint64_t n) {
      auto after = ranges.upper_bound(n);
      if (after != ranges.begin()) {
        auto before = std::prev(after);
        if (before->second > n) return false;
        if (before->second == n) {
          ++before->second;
          if (after != ranges.end() && after->first == n + 1) {
            before->second = after->second;
            ranges.erase(after);
          }
          return ++count, true;
        }
      }
      if (after != ranges.end() && after->first == n + 1) {
        const std::uint64_t end = after->second;
        ranges.erase(after);
        ranges[n] = end;
      } else {
        ranges[n] = n + 1;
      }
      return ++count, true;
    }
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

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_CHECKER_HPP
