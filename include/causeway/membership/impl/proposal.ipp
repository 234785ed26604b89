// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_PROPOSAL_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_PROPOSAL_IPP

#include <causeway/membership/proposal.hpp>

#include <algorithm>
#include <map>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

CAUSEWAY_DECL void takeover::begin_round(const ledger& samples, const std::vector<net::peer_id>& members) {
  const auto holds = [&](net::peer_id id) { return !samples.held(id).empty(); };
  if (std::any_of(members.begin(), members.end(), holds)) idle_since_.reset();
}

CAUSEWAY_DECL time_point takeover::due(const ledger& samples, std::size_t peers, const wait_times& waits, time_point now) {
  if (samples.complete()) return no_deadline;
  if (!idle_since_) idle_since_ = now;
  const std::uint64_t missing = samples.budget() - samples.done();
  return *idle_since_ + waits.training_time((missing + peers - 1) / peers);
}

CAUSEWAY_DECL std::uint64_t median(std::vector<std::uint64_t> brought) {
  if (brought.empty()) return 0;
  const auto middle = brought.begin() + static_cast<std::ptrdiff_t>(brought.size() / 2);
  std::nth_element(brought.begin(), middle, brought.end());
  return *middle;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

CAUSEWAY_DECL proposal_rule what_may_be_proposed(std::span<const net::peer_id> members,
                                                 std::span<const statement> statements) {
  std::vector<net::peer_id> heard;
  ballot highest;
  bool any = false;
  for (const statement& s : statements) {
    heard.push_back(s.peer);
    if (s.accepted == nullptr) continue;
    highest = any ? std::max(highest, s.accepted->at) : s.accepted->at;
    any = true;
  }
  if (!is_quorum(members, heard)) return {};
  if (!any) return {proposal_rule::free, nullptr};

  // Candidates are the values of the highest ballot: had another been chosen below it, they would be that one. A member
  // that voted for one of them in a lower ballot counts as well: its vote may have been what got the value chosen.
  std::map<std::uint64_t, std::pair<const commit_record*, std::vector<net::peer_id>>> values;  // by chain
  for (const statement& s : statements) {
    if (s.accepted != nullptr && s.accepted->at == highest) values[s.accepted->value.chain()].first = &s.accepted->value;
  }
  for (const statement& s : statements) {
    if (s.accepted == nullptr) continue;
    const auto at = values.find(s.accepted->value.chain());
    if (at != values.end()) at->second.second.push_back(s.peer);
  }
  std::vector<net::peer_id> silent;
  std::sort(heard.begin(), heard.end());
  for (const net::peer_id id : members) {
    if (!std::binary_search(heard.begin(), heard.end(), id)) silent.push_back(id);
  }
  proposal_rule rule{proposal_rule::free, nullptr};
  std::size_t most = 0;
  for (auto& [chain, entry] : values) {
    auto& [value, voters] = entry;
    const std::size_t count = voters.size();
    voters.insert(voters.end(), silent.begin(), silent.end());
    if (is_quorum(members, voters)) {
      if (rule.is == proposal_rule::bound) return {};
      rule = {proposal_rule::bound, value};
    } else if (rule.is == proposal_rule::free && count > most) {
      rule.value = value;
      most = count;
    }
  }
  return rule;
}

}}}  // namespace causeway::CAUSEWAY_ABI::membership

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

CAUSEWAY_DECL std::vector<std::uint64_t> brought(const peer_table& t, const std::vector<net::peer_id>& who) {
  std::vector<std::uint64_t> samples;
  for (const net::peer_id id : who) samples.push_back(t.find(id)->said->samples);
  return samples;
}

CAUSEWAY_DECL bool out_of_work(const peer_table& t, const std::vector<net::peer_id>& who) {
  const auto brings_nothing = [&](net::peer_id id) {
    const report& said = *t.find(id)->said;
    return said.samples == 0 && !said.leaving;
  };
  return handed_out(t.votes.durable().samples) && std::all_of(who.begin(), who.end(), brings_nothing);
}

CAUSEWAY_DECL commit_record propose(const peer_table& t, const view& who) {
  commit_record r;
  r.run = t.settings.run;
  r.round = who.round;
  r.parent = who.parent;
  r.at = who.at;
  for (const view_member& m : who.members) {
    if (m.samples > 0) r.contributions.push_back({m.peer, m.samples});
    if (!t.find(m.peer)->said->leaving) r.members.push_back(m.peer);
  }
  const bool all_leave = r.members.empty();
  for (const view_member& m : who.members) {
    if (all_leave) r.members.push_back(m.peer);
    if (!all_leave && t.find(m.peer)->said->leaving) r.returned.push_back(m.peer);
  }
  std::vector<net::peer_id> here;
  for (const view_member& m : who.members) here.push_back(m.peer);
  const bool all_back = out_of_work(t, here);
  std::sort(here.begin(), here.end());
  for (const net::peer_id id : t.votes.durable().samples.holders()) {
    const peer_entry* p = t.find(id);
    const bool gone = p == nullptr || (!p->up && p->rounds_down > 0) || (p->up && p->said && p->said->leaving);
    const bool away = gone && !std::binary_search(here.begin(), here.end(), id);
    if ((away || all_back) && r.returned.size() < max_members) r.returned.push_back(id);
  }
  r.ledger = t.votes.hash_after(r);
  return r;
}

CAUSEWAY_DECL bool adds_up(const go& m) {
  std::vector<contribution> weights;
  std::vector<net::peer_id> who;
  for (const view_member& v : m.who.members) {
    if (v.samples > 0) weights.push_back({v.peer, v.samples});
    who.push_back(v.peer);
  }
  std::sort(who.begin(), who.end());
  const auto takes_part = [&](net::peer_id id) { return std::binary_search(who.begin(), who.end(), id); };
  return weights == m.proposal.contributions && std::adjacent_find(who.begin(), who.end()) == who.end() &&
         std::all_of(m.proposal.members.begin(), m.proposal.members.end(), takes_part);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_PROPOSAL_IPP
