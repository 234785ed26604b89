// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_PROPOSAL_HPP
#define CAUSEWAY_MEMBERSHIP_PROPOSAL_HPP

// What a leader puts to the vote: who will be a member, whose samples count, and whose go back to the pool; and what peers
// check of it before they take part.

#include <causeway/membership/peer_table.hpp>
#include <causeway/membership/records.hpp>
#include <causeway/membership/takeover.hpp>

#include <cstdint>
#include <vector>

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
