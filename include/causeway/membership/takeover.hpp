// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TAKEOVER_HPP
#define CAUSEWAY_MEMBERSHIP_TAKEOVER_HPP

// The end of a budget: all samples are handed out, and some of those who hold them are late, hang or are gone, while the
// others have nothing to train. When a leader lets the others take over what is missing.

#include <causeway/membership/attempt.hpp>
#include <causeway/membership/ledger.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

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

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/impl/takeover.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_TAKEOVER_HPP
