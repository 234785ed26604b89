// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_RECOVERY_NEIGHBOUR_IPP
#define CAUSEWAY_STAGE_IMPL_RECOVERY_NEIGHBOUR_IPP

#include <causeway/stage/recovery_neighbour.hpp>

#include <algorithm>
#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace detail {

CAUSEWAY_DECL double neighbour_weight(const cluster_snapshot& g, const nn::block_range& blocks, neighbour_weights how) {
  double squares = 0;
  for (std::int64_t b = blocks.first; b < blocks.last; ++b) squares += g.peers[g.first_holder(b)].squares_of(b);
  return how == neighbour_weights::squared_norms ? squares : std::min(std::sqrt(squares), 1.0) + 1e-4;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace recovery {

CAUSEWAY_DECL std::vector<made_up_block> neighbour_init::made_up(const cluster_snapshot& g) const {
  std::vector<made_up_block> all;
  for (const nn::block_range& lost : lost_runs(g)) {
    if (lost.first == 0 || lost.last == g.layers) continue;
    std::int64_t from = lost.first, to = lost.last;  // blocks [from, lost.first) and [lost.last, to) are there
    while (from > 0 && lost.first - from < lost.size() && g.somebody_holds(from - 1)) --from;
    while (to < g.layers && to - lost.last < lost.size() && g.somebody_holds(to)) ++to;
    const double before = stage::detail::neighbour_weight(g, {from, lost.first}, options_.weights);
    const double behind = stage::detail::neighbour_weight(g, {lost.last, to}, options_.weights);
    const double share = before + behind > 0 ? before / (before + behind) : 0.5;
    for (std::int64_t b = lost.first; b < lost.last; ++b) {
      all.push_back({b, std::max(from, b - lost.size()), std::min(to - 1, b + lost.size()), static_cast<float>(share)});
    }
  }
  return all;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::recovery

#endif  // CAUSEWAY_STAGE_IMPL_RECOVERY_NEIGHBOUR_IPP
