// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_SHADOWS_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_SHADOWS_HPP

// Where peers of a replica that takes steps of its own keep stages of others, for when these are lost: what makes the copy
// the live stage, bit for bit. It begins as one, and makes each of its steps, by the same gradient.

#include <causeway/collective/broadcast.hpp>
#include <causeway/collective/group_view.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/parallel/elastic/block_moves.hpp>
#include <causeway/parallel/elastic/pipeline_peer.hpp>
#include <causeway/stage/layout.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Those of a replica that hold a block, as the transport numbers them; and the place of the one that computes it.
inline std::pair<std::vector<net::peer_index>, net::peer_index> copies_of(const pipeline_peer& peer, std::int64_t block) {
  const stage::replica& replica = peer.layout.replicas[peer.place.replica];
  const auto holders = stage::layout{{replica}}.holders(block);
  std::vector<net::peer_index> peers;
  for (const std::uint64_t id : holders) peers.push_back(peer.index_of.at(id));
  const auto source = std::find(holders.begin(), holders.end(), computer_of(replica, block)) - holders.begin();
  return {std::move(peers), static_cast<net::peer_index>(source)};
}

/// values ← what the peers of this peer's replica have there that compute each block, at those who hold it besides.
/// `values`: as the parameters lie. All of the replica call it, in the same order; `name`: another one each time in an
/// attempt. 4 bytes a value that is kept.
inline result<void> copy_to_shadows(auto& ctx, const pipeline_peer& peer, std::span<float> values, std::uint64_t name) {
  const std::int64_t layers = ctx.model().blocks();
  for (std::int64_t b = 0; b < layers; ++b) {
    if (!peer.assignment->holds(b)) continue;
    auto [peers, source] = copies_of(peer, b);
    if (peers.size() < 2) continue;
    collective::group_view view{*peer.attempt.transport, std::move(peers)};
    const auto id = peer.named(pipeline_peer::move_channel, mix(name, static_cast<std::uint64_t>(b) + 1));
    const auto block = blocks_in(values, ctx.model().parameters().segments(), {b, b + 1}, layers);
    CAUSEWAY_TRY(collective::broadcast(view, id, source, block, peer.how(ctx)));
  }
  return {};
}

/// Of the replica's next step.
inline result<void> give_gradient_to_shadows(auto& ctx, const pipeline_peer& peer, std::uint64_t steps) {
  constexpr std::uint64_t gradient = 0x67726164;
  return copy_to_shadows(ctx, peer, ctx.gradients(), mix(gradient, steps));
}

/// A replica begins: live parameters, and the inner optimizer's moments. In each round 12 bytes a parameter that is kept,
/// with AdamW.
inline result<void> begin_shadows(auto& ctx, const pipeline_peer& peer) {
  constexpr std::uint64_t beginning = 0x626567696E;
  std::uint64_t row = 0;
  CAUSEWAY_TRY(copy_to_shadows(ctx, peer, ctx.parameters(), mix(beginning, row)));
  for (const std::span<float> moment : ctx.inner().moments()) {
    CAUSEWAY_TRY(copy_to_shadows(ctx, peer, moment, mix(beginning, ++row)));
  }
  ctx.parameters_changed();
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_SHADOWS_HPP
