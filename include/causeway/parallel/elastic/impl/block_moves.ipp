// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_IMPL_BLOCK_MOVES_IPP
#define CAUSEWAY_PARALLEL_ELASTIC_IMPL_BLOCK_MOVES_IPP

#include <causeway/parallel/elastic/block_moves.hpp>

#include <algorithm>
#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL std::vector<block_move> moves_for(const stage::layout& to, const stage::cluster_snapshot& g) {
  std::vector<std::int64_t> sends(g.peers.size(), 0);
  std::vector<block_move> moves;
  for (net::peer_index p = 0; p < g.peers.size(); ++p) {
    const stage::assignment* const assignment = to.find(g.peers[p].id);
    if (assignment == nullptr) continue;
    for (std::int64_t b = 0; b < g.layers; ++b) {
      const nn::block_range block{b, b + 1};
      if (!assignment->holds(b) || g.peers[p].holds_all(block)) continue;
      net::peer_index best = static_cast<net::peer_index>(g.peers.size());
      for (net::peer_index q = 0; q < g.peers.size(); ++q) {
        if (g.peers[q].holds_all(block) && (best == g.peers.size() || sends[q] < sends[best])) best = q;
      }
      if (best == g.peers.size()) continue;
      ++sends[best];
      moves.push_back({b, best, p});
    }
  }
  return moves;
}

CAUSEWAY_DECL std::span<float> blocks_in(std::span<float> flat, std::span<const parameter_segment> segments,
                                         const nn::block_range& range, std::int64_t layers) {
  const auto block_of = [layers](const parameter_segment& s) { return std::clamp<std::int64_t>(s.block, 0, layers - 1); };
  const auto from =
      std::find_if(segments.begin(), segments.end(), [&](const auto& s) { return block_of(s) >= range.first; });
  const auto behind = std::find_if(from, segments.end(), [&](const auto& s) { return block_of(s) >= range.last; });
  CAUSEWAY_EXPECT(from != segments.end() && block_of(*from) == range.first);
  const auto begin = static_cast<std::size_t>(from->offset);
  const std::size_t end = behind == segments.end() ? flat.size() : static_cast<std::size_t>(behind->offset);
  return flat.subspan(begin, end - begin);
}

CAUSEWAY_DECL result<void> move_blocks(net::any_transport& transport, const net::message_id& id, time_point deadline,
                                       const std::vector<block_move>& moves, net::peer_index self,
                                       std::span<const net::peer_index> index_of,
                                       const std::map<std::int64_t, block_contents>& outward,
                                       std::map<std::int64_t, block_contents>& inward) {
  std::vector<net::scoped_operation> places;
  collective::flight flight{transport, id, deadline, places, moves.size()};
  for (std::size_t i = 0; i < moves.size(); ++i) {
    const block_move& m = moves[i];
    const collective::part what{0, static_cast<std::size_t>(m.block)};
    if (m.to == self) flight.receive(i, index_of[m.from], what, std::as_writable_bytes(std::span{inward.at(m.block)}));
    if (m.from == self) flight.send(i, index_of[m.to], what, std::as_bytes(std::span{outward.at(m.block)}));
  }
  for (std::size_t i = 0; i < moves.size(); ++i) {
    const block_move& m = moves[i];
    if (m.from == self) CAUSEWAY_TRY(flight.finish(i, index_of[m.to]));
    if (m.to != self) continue;
    const block_contents& got = inward.at(m.block);
    CAUSEWAY_TRY(flight.wait_exact(i, index_of[m.from], got.size() * sizeof(float)));
    if (!std::all_of(got.begin(), got.end(), [](float v) { return std::isfinite(v); })) {
      return fail(errc::non_finite, collective::peer_name(index_of[m.from]), "it sent parameters that are not finite");
    }
  }
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_IMPL_BLOCK_MOVES_IPP
