// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_IMPL_INTERPOLATED_BLOCKS_IPP
#define CAUSEWAY_PARALLEL_ELASTIC_IMPL_INTERPOLATED_BLOCKS_IPP

#include <causeway/parallel/elastic/interpolated_blocks.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL std::vector<block_move> sources_of(const std::vector<stage::made_up_block>& lost, const stage::layout& to,
                                                 const stage::cluster_snapshot& g) {
  std::vector<block_move> moves;
  for (net::peer_index p = 0; p < g.peers.size(); ++p) {
    const stage::assignment* const assignment = to.find(g.peers[p].id);
    for (const stage::made_up_block& m : lost) {
      if (assignment == nullptr || !assignment->holds(m.block)) continue;
      for (const std::int64_t from : {m.before, m.behind}) {
        const block_move move{from, static_cast<net::peer_index>(g.first_holder(from)), p};
        if (std::find(moves.begin(), moves.end(), move) == moves.end()) moves.push_back(move);
      }
    }
  }
  return moves;
}

CAUSEWAY_DECL block_contents made_up(const stage::made_up_block& m, std::size_t count, std::span<const float> before,
                                     std::span<const float> behind) {
  const std::span<const float> a = m.before == 0 ? before.last(count) : before.first(count);
  const std::span<const float> b = behind.first(count);  // never the first block
  block_contents made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = m.share * a[i] + (1.0F - m.share) * b[i];
  return made;
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_IMPL_INTERPOLATED_BLOCKS_IPP
