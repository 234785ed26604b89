// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_SHARES_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_SHARES_IPP

#include <causeway/collective/shares.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

CAUSEWAY_DECL std::vector<double> best_shares(std::span<const double> bandwidths, const std::vector<bool>& reduces) {
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

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL std::vector<double> bandwidth_shares(std::span<const double> bandwidths, double smallest_share) {
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

CAUSEWAY_DECL std::vector<std::size_t> whole_parts(std::size_t total, std::span<const double> shares) {
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

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_SHARES_IPP
