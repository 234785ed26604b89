// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_RECOVERY_SWAPPED_IPP
#define CAUSEWAY_STAGE_IMPL_RECOVERY_SWAPPED_IPP

#include <causeway/stage/recovery_swapped.hpp>

#include <causeway/core/error.hpp>

#include <algorithm>
#include <string>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace detail {

/// Whether somebody holds each of those blocks.
CAUSEWAY_DECL bool has_all(const cluster_snapshot& g, const nn::block_range& r) {
  for (std::int64_t b = r.first; b < r.last; ++b) {
    if (!g.somebody_holds(b)) return false;
  }
  return true;
}

/// The ends, then `stages` even stages of the other blocks.
CAUSEWAY_DECL std::vector<nn::block_range> ring_cut(std::int64_t layers, std::int64_t stages) {
  std::vector<nn::block_range> row{{0, 1}};
  for (const nn::block_range& r : even_cut(layers - 1, stages)) row.push_back({r.first + 1, r.last + 1});
  return row;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace recovery {

CAUSEWAY_DECL result<layout> swapped_neighbours::arrange(const cluster_snapshot& g) {
  constexpr std::int64_t fewest = 4;  // two pairs
  if (options_.stages < fewest || options_.stages >= g.layers) {
    return fail(errc::invalid_argument, std::string{name},
                std::to_string(g.layers - 1) + " blocks besides the ends, and " + std::to_string(options_.stages) +
                    " stages; it takes at least four stages, and as many blocks");
  }
  const std::int64_t ranks = options_.stages + 1;
  const std::size_t most = std::min<std::size_t>(g.peers.size() / static_cast<std::size_t>(ranks), g.micro_batches);
  if (most == 0) return too_few(g.peers.size(), ranks);
  const std::vector rows(most, stage::detail::ring_cut(g.layers, options_.stages));
  layout made = assign_peers(rows, even_shares(g.micro_batches, most), g);
  for (replica& r : made.replicas) r.ring = true;
  return made;
}

CAUSEWAY_DECL auto swapped_neighbours::origin_of(std::size_t s, const std::vector<nn::block_range>& row,
                                                 const cluster_snapshot& g) const -> origin {
  const std::size_t last = row.size() - 1;
  const bool of_first = s <= 2, of_last = s + 1 >= last;
  if (of_first || of_last) {
    const std::size_t twin = of_first ? 3 - s : 2 * last - 1 - s;
    return stage::detail::has_all(g, row[twin]) ? origin{row[twin], row[twin], 1} : origin{};
  }
  std::size_t before = s - 1, behind = s + 1;
  while (before > 0 && !stage::detail::has_all(g, row[before])) --before;
  while (behind <= last && !stage::detail::has_all(g, row[behind])) ++behind;
  if (before == 0 || behind > last) return {};
  const double w = stage::detail::neighbour_weight(g, row[before], options_.weights);
  const double v = stage::detail::neighbour_weight(g, row[behind], options_.weights);
  return {row[before], row[behind], static_cast<float>(w + v > 0 ? w / (w + v) : 0.5)};
}

CAUSEWAY_DECL std::vector<made_up_block> swapped_neighbours::made_up(const cluster_snapshot& g) const {
  std::vector<made_up_block> all;
  if (options_.stages < 1 || options_.stages >= g.layers) return all;
  const std::vector<nn::block_range> row = stage::detail::ring_cut(g.layers, options_.stages);
  for (std::size_t s = 1; s < row.size(); ++s) {
    if (stage::detail::has_all(g, row[s])) continue;
    const origin from = origin_of(s, row, g);
    if (from.before.size() == 0) continue;
    for (std::int64_t b = row[s].first; b < row[s].last; ++b) {
      const std::int64_t at = b - row[s].first;
      const auto like = [at](const nn::block_range& r) { return std::min(r.first + at, r.last - 1); };
      if (!g.somebody_holds(b)) all.push_back({b, like(from.before), like(from.behind), from.share});
    }
  }
  return all;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::recovery

#endif  // CAUSEWAY_STAGE_IMPL_RECOVERY_SWAPPED_IPP
