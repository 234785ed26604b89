// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_DECISION_HPP
#define CAUSEWAY_MEMBERSHIP_DECISION_HPP

// What a leader may propose, given what the members reported: the heart of the protocol's safety, kept apart and pure.

#include <causeway/membership/durable_record.hpp>
#include <causeway/membership/records.hpp>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

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
CAUSEWAY_DECL [[nodiscard]] proposal_rule what_may_be_proposed(std::span<const net::peer_id> members,
                                                               std::span<const statement> statements);

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/impl/decision.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_DECISION_HPP
