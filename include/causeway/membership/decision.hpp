// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_DECISION_HPP
#define CAUSEWAY_MEMBERSHIP_DECISION_HPP

// What a leader may propose, given what the members reported: the heart of the protocol's safety, kept apart and pure.

#include <causeway/membership/durable_record.hpp>
#include <causeway/membership/records.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::membership {

/// What one member said of its vote for the round in question, after it was barred from all ballots below the next one.
struct statement {
  net::peer_id peer = 0;
  const acceptance* accepted = nullptr;  ///< nullptr: none
};

/// What may be proposed next.
struct proposal_rule {
  enum kind {
    wait,  ///< too few statements, or more than one value may have been chosen: more members have to be heard
    free,  ///< no value was or can be chosen in an earlier ballot: anything may be proposed
    bound  ///< `value` may have been chosen: nothing else may be proposed
  };
  kind is = wait;
  const commit_record* value = nullptr;  ///< bound: the value. free: a value somebody voted for, which may be proposed too
};

/// The rule of Paxos, phase 2a, for `members`. A ballot has one value, unless replicas that must be equal were not: then
/// the members voted for different hashes in it. Only a value that a quorum may have voted for, heard or not, binds. Cost:
/// O(n log n).
[[nodiscard]] inline proposal_rule what_may_be_proposed(std::span<const net::peer_id> members,
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

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_DECISION_HPP
