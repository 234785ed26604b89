// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_IMPL_INTERPOLATED_BLOCKS_IPP
#define CAUSEWAY_PARALLEL_ELASTIC_IMPL_INTERPOLATED_BLOCKS_IPP

// Bodies of parallel/elastic/interpolated_blocks.hpp.

#include <causeway/parallel/elastic/interpolated_blocks.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL std::vector<nn::block_range> lost_runs(const stage::cluster_snapshot& g) {
  std::vector<nn::block_range> runs;
  for (std::int64_t b = 0; b < g.layers; ++b) {
    if (g.somebody_holds(b)) continue;
    if (runs.empty() || runs.back().last != b) runs.push_back({b, b});
    runs.back().last = b + 1;
  }
  return runs;
}

CAUSEWAY_DECL std::vector<made_up_block> made_up_for(const stage::cluster_snapshot& g) {
  const auto squares = [&](std::int64_t block) { return g.peers[g.first_holder(block)].squares_of(block); };
  std::vector<made_up_block> all;
  for (const nn::block_range& lost : lost_runs(g)) {
    std::int64_t from = lost.first, to = lost.last;  // blocks [from, lost.first) and [lost.last, to) are there
    while (from > 0 && lost.first - from < lost.size() && g.somebody_holds(from - 1)) --from;
    while (to < g.layers && to - lost.last < lost.size() && g.somebody_holds(to)) ++to;
    double before = 0, behind = 0;
    for (std::int64_t b = from; b < lost.first; ++b) before += squares(b);
    for (std::int64_t b = lost.last; b < to; ++b) behind += squares(b);
    const double share = before + behind > 0 ? before / (before + behind) : 0.5;
    for (std::int64_t b = lost.first; b < lost.last; ++b) {
      all.push_back({b, std::max(from, b - lost.size()), std::min(to - 1, b + lost.size()), static_cast<float>(share)});
    }
  }
  return all;
}

CAUSEWAY_DECL std::vector<block_move> sources_of(std::span<const made_up_block> lost, const stage::layout& to,
                                                 const stage::cluster_snapshot& g) {
  std::vector<block_move> moves;
  for (net::peer_index p = 0; p < g.peers.size(); ++p) {
    const stage::assignment* const assignment = to.find(g.peers[p].id);
    for (const made_up_block& m : lost) {
      if (assignment == nullptr || !assignment->holds(m.block)) continue;
      for (const std::int64_t from : {m.before, m.behind}) {
        const block_move move{from, static_cast<net::peer_index>(g.first_holder(from)), p};
        if (std::find(moves.begin(), moves.end(), move) == moves.end()) moves.push_back(move);
      }
    }
  }
  return moves;
}

CAUSEWAY_DECL block_contents parameters_of(block_contents all, std::size_t moments) {
  all.resize(all.size() / (1 + moments));
  return all;
}

CAUSEWAY_DECL block_contents made_up(const made_up_block& m, std::size_t size, std::size_t moments,
                                     std::span<const float> before, std::span<const float> behind) {
  const std::size_t count = size / (1 + moments);
  const std::span<const float> a = m.before == 0 ? before.last(count) : before.first(count);
  const std::span<const float> b = behind.first(count);  // never the first block
  block_contents made(size, 0.0F);
  for (std::size_t i = 0; i < count; ++i) made[i] = m.share * a[i] + (1.0F - m.share) * b[i];
  return made;
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_IMPL_INTERPOLATED_BLOCKS_IPP
