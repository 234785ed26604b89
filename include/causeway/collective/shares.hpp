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

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::collective {

namespace detail {

/// The best shares where only peers with `reduces[i]` may have one.
inline std::vector<double> best_shares(std::span<const double> bandwidths, const std::vector<bool>& reduces) {
  const double n = static_cast<double>(bandwidths.size());
  double xi = 0, sum = 0, count = 0;
  for (std::size_t i = 0; i < bandwidths.size(); ++i) {
    if (bandwidths[i] > 0) xi = std::max(xi, 1 / bandwidths[i]);
    if (reduces[i]) sum += bandwidths[i];
    if (reduces[i]) count += 1;
  }
  if (sum > 0) xi = std::max(xi, (n - 2 + count) / sum);
  // The most that each can take within ξ. With two peers (and one) the share costs nothing: equal ones.
  std::vector<double> shares(bandwidths.size());
  double total = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (reduces[i]) shares[i] = n > 2 ? std::max(0.0, xi * bandwidths[i] - 1) / (n - 2) : 1.0;
    total += shares[i];
  }
  for (double& w : shares) w = total > 0 ? w / total : 0;
  return shares;
}

}  // namespace detail

/// w_i for peers of bandwidth b_i (any unit, >= 0, finite): adds up to 1, and the slowest peer is done as early as can be.
/// b_i = 0 marks a peer that only sends and receives its own; its w_i is 0. A peer whose share would be under
/// `smallest_share` (a message costs something, however short) gets none, and the others share what it would have had; the
/// last one keeps all. All zeros where all bandwidths are 0.
inline std::vector<double> bandwidth_shares(std::span<const double> bandwidths, double smallest_share = 0) {
  std::vector<bool> reduces(bandwidths.size());
  for (std::size_t i = 0; i < bandwidths.size(); ++i) reduces[i] = bandwidths[i] > 0;
  for (;;) {
    std::vector<double> shares = detail::best_shares(bandwidths, reduces);
    std::size_t smallest = shares.size();
    for (std::size_t i = 0; i < shares.size(); ++i) {
      if (reduces[i] && (smallest == shares.size() || shares[i] < shares[smallest])) smallest = i;
    }
    const auto left = std::count(reduces.begin(), reduces.end(), true);
    if (left <= 1 || shares[smallest] >= smallest_share) return shares;
    reduces[smallest] = false;
  }
}

/// `total` things in whole numbers ∝ shares, by the quota of Hagenbach-Bischoff: everybody gets the whole part of its due;
/// each thing left over goes where share / (number so far + 1) is largest, the lowest index first. Shares are >= 0 and not
/// all 0; a share of 0 gets nothing. Adds up to `total`.
inline std::vector<std::size_t> whole_parts(std::size_t total, std::span<const double> shares) {
  double sum = 0;
  for (const double s : shares) sum += s;
  CAUSEWAY_EXPECT(sum > 0);
  std::vector<std::size_t> parts(shares.size());
  std::size_t given = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double due = static_cast<double>(total) * (shares[i] / sum);
    parts[i] = std::min(static_cast<std::size_t>(due), total - given);  // rounding must not give out more than there is
    given += parts[i];
  }
  for (; given < total; ++given) {
    std::size_t next = 0;
    const auto claim = [&](std::size_t i) { return shares[i] / static_cast<double>(parts[i] + 1); };
    for (std::size_t i = 1; i < parts.size(); ++i) {
      if (claim(i) > claim(next)) next = i;
    }
    ++parts[next];
  }
  return parts;
}

}  // namespace causeway::inline CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_SHARES_HPP
