// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_REPLICA_TABLE_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_REPLICA_TABLE_HPP

// A token table that both ends of a replica hold, where replicas take steps of their own. They begin with the same bits
// (parallel/elastic/shadows.hpp), and move by the same gradient; what replicas exchange of it is a row by itself, which
// both ends get the mean of (holders_of_blocks). So it is one table all the time.

#include <causeway/collective/channels.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/parallel/elastic/block_sums.hpp>
#include <causeway/parallel/elastic/pipeline_peer.hpp>
#include <causeway/parallel/tied_table.hpp>

#include <cstdint>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// The gradient of the table becomes its sum over the peers of the replica that hold it, one with the same bits for all;
/// who keeps an end without computing it has put in zeros. Gives the norm of what this peer computes of the whole gradient,
/// of which the table is a part at the first end: `own`, where it has none. To be called before others' gradients come
/// (give_gradient_to_shadows). `steps`: that the replica has taken. 4 bytes a value of the table from and to each of them.
inline result<float> complete_table(auto& ctx, const pipeline_peer& peer, std::uint64_t steps, float own) {
  const std::span<float> gradients = ctx.gradients(), table = table_in(ctx.model(), gradients);
  if (table.empty()) return own;
  const auto holders = holders_of_table({{peer.layout.replicas[peer.place.replica]}}, ctx.model().blocks());
  net::any_transport& transport = *peer.attempt.transport;
  net::message_id id = peer.named(pipeline_peer::sums_channel, steps);
  id.channel = collective::channels::gradients;
  CAUSEWAY_TRY(sum_over(transport, id, holders, peer.index_of, table, peer.how(ctx)));
  CAUSEWAY_EXPECT(table.data() == gradients.data());
  const bool is_first = peer.index_of.at(holders.front()) == transport.self();  // who computes the embedding
  return ctx.norm_of(is_first ? gradients : gradients.subspan(table.size()));
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_REPLICA_TABLE_HPP
