// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_BLOCK_MOVES_HPP
#define CAUSEWAY_PARALLEL_BLOCK_MOVES_HPP

// Blocks of a model on their way to peers that are to hold them from now on: which go from whom to whom, and how parameters
// and optimizer state of one become a message.

#include <causeway/collective/channels.hpp>
#include <causeway/collective/flight.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::parallel {

/// `from` and `to` are places in gathering::peers.
struct block_move {
  std::int64_t block = 0;
  net::peer_index from = 0;
  net::peer_index to = 0;

  friend bool operator==(const block_move&, const block_move&) = default;
};

/// What must move so that everybody has what it is to hold; blocks that nobody has are left out. Each comes from the holder
/// that sends least so far.
[[nodiscard]] inline std::vector<block_move> moves_for(const stage::layout& to, const stage::gathering& g) {
  std::vector<std::int64_t> sends(g.peers.size(), 0);
  std::vector<block_move> moves;
  for (net::peer_index p = 0; p < g.peers.size(); ++p) {
    const stage::seat* const seat = to.find(g.peers[p].id);
    if (seat == nullptr) continue;
    for (std::int64_t b = 0; b < g.layers; ++b) {
      const nn::block_range block{b, b + 1};
      if (!seat->holds(b) || g.peers[p].holds_all(block)) continue;
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

/// The place of blocks [range.first, range.last) in flat buffers with these segments; what stands before the first block
/// goes with it, what stands behind the last likewise. Precondition: they are held.
[[nodiscard]] inline std::span<float> blocks_in(std::span<float> flat, std::span<const parameter_segment> segments,
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

/// Contents of a block: parameters, then each of the optimizer's moments.
using block_contents = std::vector<float>;

/// Sends and receives `moves` of this peer, `self` in gathering::peers; `index_of[p]` is the transport's number of place p.
/// `outward` has the contents of what it sends, `inward` room for what it receives, by block. errc::non_finite: a peer sent
/// what are no parameters. Bytes: the blocks, 12 a parameter with AdamW.
inline result<void> move_blocks(net::any_transport& transport, const net::message_id& id, time_point deadline,
                                std::span<const block_move> moves, net::peer_index self,
                                std::span<const net::peer_index> index_of,
                                const std::map<std::int64_t, block_contents>& outward,
                                std::map<std::int64_t, block_contents>& inward) {
  std::vector<net::operation> places;
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

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_BLOCK_MOVES_HPP
