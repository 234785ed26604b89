// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_PROPOSAL_HPP
#define CAUSEWAY_MEMBERSHIP_PROPOSAL_HPP

// What a leader puts to the vote: who will be a member, whose samples count, and whose go back to the pool; and what peers
// check of it before they take part.

#include <causeway/membership/attempt.hpp>
#include <causeway/membership/durable_record.hpp>
#include <causeway/membership/ledger.hpp>
#include <causeway/membership/peer_table.hpp>
#include <causeway/membership/records.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

// The end of a budget: all samples are handed out, and some of those who hold them are late, hang or are gone, while the
// others have nothing to train. When a leader lets the others take over what is missing.

/// Whether every sample of the budget is done or held by somebody: a round whose peers bring nothing changes nothing,
/// unless it takes samples from those who are not there.
[[nodiscard]] inline bool handed_out(const ledger& samples) { return samples.quota() > 0 && samples.left() == 0; }

/// Since when the members have had nothing to train. Regular; for the leader alone.
class takeover {
 public:
  CAUSEWAY_DECL void begin_round(const ledger& samples, const std::vector<net::peer_id>& members);

  /// When so many peers that have nothing to train may take over what others hold: once they have waited for as long as it
  /// will take them to train it, so that waiting and doing it again cost at most twice the better of the two. Never where
  /// nothing is left.
  CAUSEWAY_DECL [[nodiscard]] time_point due(const ledger& samples, std::size_t peers, const wait_times& waits,
                                             time_point now);

 private:
  std::optional<time_point> idle_since_;
};

/// The middle one of what peers bring to a round; 0 of none.
CAUSEWAY_DECL [[nodiscard]] std::uint64_t median(std::vector<std::uint64_t> brought);

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

// What a leader may propose, given what the members reported: the heart of the protocol's safety, kept apart and pure.

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

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

/// What peers that are ready bring, in their order.
CAUSEWAY_DECL [[nodiscard]] std::vector<std::uint64_t> brought(const peer_table& t, const std::vector<net::peer_id>& who);

/// A round would change nothing: nobody brings anything, there is nothing to hand out, and nobody wants to go.
CAUSEWAY_DECL [[nodiscard]] bool out_of_work(const peer_table& t, const std::vector<net::peer_id>& who);

/// The whole record but the state. Who leaves takes part, and is no member afterwards; unless all leave. A
/// round of peers out of work is a takeover: all that anybody holds goes back to the pool, and is dealt out among them.
CAUSEWAY_DECL [[nodiscard]] commit_record propose(const peer_table& t, const view& who);

/// For who takes part: weights are what the record counts, and only who takes part can be a member afterwards.
CAUSEWAY_DECL [[nodiscard]] bool adds_up(const go& m);

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/impl/proposal.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_PROPOSAL_HPP
