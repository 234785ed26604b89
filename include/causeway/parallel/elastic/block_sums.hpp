// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_BLOCK_SUMS_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_BLOCK_SUMS_HPP

// The gradients of a model that several pipelines hold, which need not be cut alike: each block is summed over those who
// hold it, and a tied table over those who hold either end.

#include <causeway/collective/all_reduce.hpp>
#include <causeway/collective/group_view.hpp>
#include <causeway/collective/options.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/tied_table.hpp>
#include <causeway/stage/layout.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Blocks in a row that the same peers hold, and those peers.
struct shared_run {
  nn::block_range blocks;
  std::vector<std::uint64_t> holders;
};

CAUSEWAY_DECL [[nodiscard]] std::vector<shared_run> shared_runs(const stage::layout& l, std::int64_t layers);

/// Squared norms of summed gradients. A tied table counts as part of the first block.
struct block_squares {
  std::map<std::int64_t, double> of;  ///< every block that this peer holds
  double first = 0;                   ///< of those that it is the first holder of: over all peers, of the whole model
};

/// Of the blocks of `run`, in `gradients`, which have the parameters' layout; `first`: this peer is their first holder.
void add_squares(block_squares& squares, auto& ctx, std::span<float> gradients, const nn::block_range& run, bool first) {
  const std::int64_t layers = ctx.model().blocks();
  for (std::int64_t b = run.first; b < run.last; ++b) {
    const double norm = ctx.norm_of(blocks_in(gradients, ctx.model().parameters().segments(), {b, b + 1}, layers));
    squares.of[b] = norm * norm;
    if (first) squares.first += norm * norm;
  }
}

/// Of gradients that are there already, in a layout whose pipelines are cut alike; nothing of a spare peer's.
block_squares squares_of(auto& ctx, std::span<float> gradients, const stage::layout& l, std::uint64_t self) {
  block_squares squares;
  for (const shared_run& run : shared_runs(l, ctx.model().blocks())) {
    const auto mine = std::find(run.holders.begin(), run.holders.end(), self);
    if (mine != run.holders.end()) add_squares(squares, ctx, gradients, run.blocks, mine == run.holders.begin());
  }
  return squares;
}

/// Sums over `holders`, of whom this peer is one; the same bits for all of them. Of nothing: nothing. `index_of`: the
/// transport's number of each.
CAUSEWAY_DECL result<void> sum_over(net::any_transport& transport, const net::message_id& id,
                                    std::span<const std::uint64_t> holders,
                                    const std::map<std::uint64_t, net::peer_index>& index_of, std::span<float> values,
                                    const collective::collective_options& options);

/// Sums the gradients of `ctx` over their holders. Who holds a block without computing it puts in zeros and gets the sum,
/// which keeps it up to date. `self`: this peer in the layout; `index_of`: the transport's number of each.
result<block_squares> sum_blocks(auto& ctx, net::any_transport& transport, const net::message_id& id,
                                 const stage::layout& l, std::uint64_t self,
                                 const std::map<std::uint64_t, net::peer_index>& index_of,
                                 const collective::collective_options& options) {
  const std::int64_t layers = ctx.model().blocks();
  const auto tables = holders_of_table(l, layers);
  if (std::find(tables.begin(), tables.end(), self) != tables.end()) {  // a spare peer may have one that counts for nothing
    CAUSEWAY_TRY(sum_over(transport, id, tables, index_of, table_in(ctx.model(), ctx.gradients()), options));
  }
  block_squares squares;
  net::message_id named = id;
  std::uint64_t number = 0;
  for (const shared_run& run : shared_runs(l, layers)) {
    named.step = mix(id.step, number++);
    const auto mine = std::find(run.holders.begin(), run.holders.end(), self);
    if (mine == run.holders.end()) continue;
    const auto values = untied_blocks_in(ctx.model(), ctx.gradients(), run.blocks);
    CAUSEWAY_TRY(sum_over(transport, named, run.holders, index_of, values, options));
    add_squares(squares, ctx, ctx.gradients(), run.blocks, mine == run.holders.begin());
  }
  return squares;
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/elastic/impl/block_sums.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_ELASTIC_BLOCK_SUMS_HPP
