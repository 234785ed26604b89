// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_CHECKER_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_CHECKER_IPP

#include <causeway/membership/checker.hpp>

#include <algorithm>
#include <iterator>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

CAUSEWAY_DECL checker::checker(std::uint64_t quota, std::uint64_t budget) : ledger_{quota, budget} {}

CAUSEWAY_DECL std::optional<std::string> checker::check(const event& e) {
  const std::optional<std::string> wrong = judge(e);
  if (!wrong) return std::nullopt;
  return *wrong + "\n  at: " + to_line(e);
}

CAUSEWAY_DECL std::optional<std::string> checker::check_all(std::span<const event> events, std::uint64_t quota,
                                                            std::uint64_t budget) {
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

CAUSEWAY_DECL std::vector<event> checker::branch_of(std::span<const event> before, std::span<const event> branch) {
  std::vector<event> all;
  const auto founding = std::find_if(branch.begin(), branch.end(), [](const event& e) { return e.what == event::refound; });
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

CAUSEWAY_DECL bool checker::progressed(time_point from, time_point until) const {
  return std::any_of(commit_times_.begin(), commit_times_.end(), [&](time_point t) { return from < t && t <= until; });
}

CAUSEWAY_DECL auto checker::judge(const event& e) -> verdict {
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

CAUSEWAY_DECL auto checker::judge_boot(const event& e, memory& m) -> verdict {
  if (e.at < m.floor) return "a promise was forgotten in a restart";
  if (m.chain != 0 && (e.round < m.round || (e.round == m.round && e.chain != m.chain))) {
    return "a commit was forgotten in a restart";
  }
  const bool same_round = m.chain == e.chain;
  const ballot last = m.votes.empty() ? ballot{} : std::prev(m.votes.end())->first;
  if (same_round && e.hash != m.accepted && (e.hash == 0 || e.voted <= last)) return "a vote was forgotten in a restart";
  m.floor = e.at;
  m.promised_to = e.from;
  m.round = e.round;
  m.chain = e.chain;
  m.accepted = e.hash;
  if (e.hash != 0 && m.votes.try_emplace(e.voted, e.hash).second) count_vote(e.round + 1, e.hash, e.voted, e.peer);
  return std::nullopt;
}

CAUSEWAY_DECL auto checker::judge_promise(const event& e, memory& m) -> verdict {
  if (e.at.term < m.floor.term) return "a promise went back";
  if (e.at.term == m.floor.term && e.from != m.promised_to) return "one term was promised to two peers";
  m.floor = std::max(m.floor, e.at);
  m.promised_to = e.from;
  return std::nullopt;
}

CAUSEWAY_DECL auto checker::judge_bar(const event& e, memory& m) -> verdict {
  if (e.at < m.floor || e.at.term != m.floor.term) return "a floor went back, or left its term";
  m.floor = e.at;
  return std::nullopt;
}

CAUSEWAY_DECL auto checker::judge_lead(const event& e) -> verdict {
  const auto [at, fresh] = leaders_.try_emplace({e.at.term, e.round}, e.peer);
  if (!fresh && at->second != e.peer) return "two leaders won one term for one round";
  return std::nullopt;
}

CAUSEWAY_DECL auto checker::judge_vote(const event& e, memory& m) -> verdict {
  if (e.at < m.floor || e.at.term != m.floor.term) return "a vote below what was promised";
  if (e.round != m.round + 1 || e.parent != m.chain) return "a vote that does not follow the peer's newest commit";
  const auto [at, fresh] = m.votes.try_emplace(e.at, e.hash);
  if (!fresh && at->second != e.hash) return "two votes in one ballot";
  m.floor = e.at;
  m.accepted = e.hash;
  count_vote(e.round, e.hash, e.at, e.peer);
  return std::nullopt;
}

CAUSEWAY_DECL void checker::count_vote(std::uint64_t round, std::uint64_t chain, ballot at, net::peer_id peer) {
  votes_[{round, chain}][at].insert(peer);
}

CAUSEWAY_DECL auto checker::judge_commit(const event& e, memory& m) -> verdict {
  if (m.chain != 0 && e.round < m.round) return "a peer's commits went back";
  if (verdict wrong = judge_record(e)) return wrong;
  if (m.chain == e.chain) return std::nullopt;  // said again after a restart
  m.round = e.round;
  m.chain = e.chain;
  m.accepted = 0;
  return std::nullopt;
}

CAUSEWAY_DECL auto checker::judge_record(const event& e) -> verdict {
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

CAUSEWAY_DECL bool checker::voted_for(const event& e, const std::vector<net::peer_id>& members) const {
  const auto votes = votes_.find({e.round, e.chain});
  if (votes == votes_.end()) return false;
  return std::any_of(votes->second.begin(), votes->second.end(), [&](const auto& b) {
    return is_quorum(members, {b.second.begin(), b.second.end()});
  });
}

CAUSEWAY_DECL auto checker::judge_samples(const event& e) -> verdict {
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

CAUSEWAY_DECL bool checker::trained_on(const event& e, net::peer_id peer, const std::vector<std::uint64_t>& numbers) const {
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

CAUSEWAY_DECL auto checker::judge_held(const event& e, const memory& m, const std::map<std::uint64_t, record>& records)
    -> verdict {
  const auto known = records.find(e.round);
  if (e.round > m.round || known == records.end()) return "a state was held of a round that was not committed";
  if (known->second.state != e.hash) return "a state was held that is not the committed one";
  return std::nullopt;
}

CAUSEWAY_DECL auto checker::judge_update(const event& e, const memory& m) -> verdict {
  if (e.at < m.floor || e.at.term != m.floor.term) return "data of another attempt was let in";
  if (e.parent != m.chain || e.round != m.round + 1) return "data with another parent was let in";
  return std::nullopt;
}

CAUSEWAY_DECL bool checker::number_set::insert(std::uint64_t n) {
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

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_CHECKER_IPP
