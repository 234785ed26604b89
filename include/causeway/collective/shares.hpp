// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_SHARES_HPP
#define CAUSEWAY_COLLECTIVE_SHARES_HPP

// How much of a row each peer should reduce for the others, when their bandwidths differ (Diskin et al. 2021, DeDLOC; in
// the form of hivemind's load balancing). A peer that reduces the share w of n peers' rows sends its own row but for that
// share, and w times the row to the n-1 others: 1 + (n-2) w rows in all. The slowest peer sets the time:
//   minimise ξ  with  (1 + (n-2) w_i) / b_i <= ξ,  Σ w_i = 1,  w_i >= 0.
// Adding up the constraints of the k peers that reduce gives ξ >= (n-2+k) / Σ b_i, and each peer must send its row, so
// ξ >= 1 / b_i: the larger of the two is reached. No solver is needed.

#include <causeway/config/config.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

namespace detail {

/// The best shares where only peers with `reduces[i]` may have one.
CAUSEWAY_DECL std::vector<double> best_shares(std::span<const double> bandwidths, const std::vector<bool>& reduces);

}  // namespace detail

/// w_i for peers of bandwidth b_i (any unit, >= 0, finite): adds up to 1, and the slowest peer is done as early as can be.
/// b_i = 0 marks a peer that only sends and receives its own; its w_i is 0. A peer whose share would be under
/// `smallest_share` (a message costs something, however short) gets none, and the others share what it would have had; the
/// last one keeps all. All zeros where all bandwidths are 0.
CAUSEWAY_DECL std::vector<double> bandwidth_shares(std::span<const double> bandwidths, double smallest_share = 0);

/// `total` things in whole numbers ∝ shares, by the quota of Hagenbach-Bischoff: everybody gets the whole part of its due;
/// each thing left over goes where share / (number so far + 1) is largest, the lowest index first. Shares are >= 0 and not
/// all 0; a share of 0 gets nothing. Adds up to `total`.
CAUSEWAY_DECL std::vector<std::size_t> whole_parts(std::size_t total, std::span<const double> shares);

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#ifndef CAUSEWAY_COMPILED
#include <causeway/collective/impl/shares.ipp>
#endif

#endif  // CAUSEWAY_COLLECTIVE_SHARES_HPP
