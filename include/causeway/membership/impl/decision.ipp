// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_DECISION_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_DECISION_IPP

// Bodies of membership/decision.hpp.

#include <causeway/membership/decision.hpp>

#include <algorithm>
#include <map>

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

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_DECISION_IPP
