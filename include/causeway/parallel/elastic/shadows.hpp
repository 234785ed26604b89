// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_SHADOWS_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_SHADOWS_HPP

// Where peers of a replica that takes steps of its own keep stages of others, for when these are lost: what makes the copy
// the live stage, bit for bit. It begins as one, and makes each of its steps, by the same gradient. So does the second copy
// of a table that both ends of a replica share, whoever holds these.

#include <causeway/collective/broadcast.hpp>
#include <causeway/collective/group_view.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/parallel/elastic/cohorts.hpp>
#include <causeway/parallel/elastic/pipeline_peer.hpp>
#include <causeway/parallel/tied_table.hpp>
#include <causeway/stage/layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Peers of a replica that hold the same, as the transport numbers them; and the place of the one that computes it.
using replica_copies = std::pair<std::vector<net::peer_index>, net::peer_index>;
inline replica_copies copies_at(const pipeline_peer& peer, const std::vector<std::uint64_t>& holders, std::int64_t block) {
  std::vector<net::peer_index> peers;
  for (const std::uint64_t id : holders) peers.push_back(peer.index_of.at(id));
  const std::uint64_t computer = computer_of(peer.layout.replicas[peer.place.replica], block);
  const auto source = std::find(holders.begin(), holders.end(), computer) - holders.begin();
  return {std::move(peers), static_cast<net::peer_index>(source)};
}
/// Of a block; and of a table that both ends of the model share, which counts as the first block's.
inline replica_copies copies_of(const pipeline_peer& peer, std::int64_t block) {
  return copies_at(peer, stage::layout{{peer.layout.replicas[peer.place.replica]}}.holders(block), block);
}
inline replica_copies copies_of_table(const pipeline_peer& peer, std::int64_t layers) {
  return copies_at(peer, holders_of_table({{peer.layout.replicas[peer.place.replica]}}, layers), 0);
}

/// `values` at all `copies`, as they are where they are computed. `name`: another one each time in an attempt.
inline result<void> copy_among(auto& ctx, const pipeline_peer& peer, replica_copies copies, std::span<float> values,
                               std::uint64_t name) {
  if (copies.first.size() < 2) return {};
  collective::group_view view{*peer.attempt.transport, std::move(copies.first)};
  return collective::broadcast(view, peer.named(pipeline_peer::move_channel, name), copies.second, values, peer.how(ctx));
}
/// values ← what the peers of this peer's replica have there that compute each block, at those who hold it besides; without
/// such a table. `values`: as the parameters lie. All of the replica call it, in the same order. 4 bytes a value that is
/// kept.
inline result<void> copy_to_shadows(auto& ctx, const pipeline_peer& peer, std::span<float> values, std::uint64_t name) {
  for (std::int64_t b = 0; b < ctx.model().blocks(); ++b) {
    if (!peer.assignment->holds(b)) continue;
    const auto block = untied_blocks_in(ctx.model(), values, {b, b + 1});
    CAUSEWAY_TRY(copy_among(ctx, peer, copies_of(peer, b), block, mix(name, static_cast<std::uint64_t>(b) + 1)));
  }
  return {};
}
/// The same of the table alone.
inline result<void> copy_table(auto& ctx, const pipeline_peer& peer, std::span<float> values, std::uint64_t name) {
  const auto table = table_in(ctx.model(), values);
  if (table.empty()) return {};
  return copy_among(ctx, peer, copies_of_table(peer, ctx.model().blocks()), table, mix(name, 0));
}

/// Of the replica's next step. A table has its own way (complete_table).
inline result<void> give_gradient_to_shadows(auto& ctx, const pipeline_peer& peer, std::uint64_t steps) {
  constexpr std::uint64_t gradient = 0x67726164;
  return copy_to_shadows(ctx, peer, ctx.gradients(), mix(gradient, steps));
}

/// A replica begins: live parameters, and the inner optimizer's moments. In each round 12 bytes a parameter that is kept,
/// or is in a table that both ends share, with AdamW.
inline result<void> begin_shadows(auto& ctx, const pipeline_peer& peer) {
  constexpr std::uint64_t beginning = 0x626567696E;
  std::vector<std::span<float>> rows{ctx.parameters()};
  for (const std::span<float> moment : ctx.inner().moments()) rows.push_back(moment);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    CAUSEWAY_TRY(copy_to_shadows(ctx, peer, rows[row], mix(beginning, row)));
    CAUSEWAY_TRY(copy_table(ctx, peer, rows[row], mix(beginning, row)));
  }
  ctx.parameters_changed();
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_SHADOWS_HPP
