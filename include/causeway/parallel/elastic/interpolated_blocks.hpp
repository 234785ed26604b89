// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_INTERPOLATED_BLOCKS_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_INTERPOLATED_BLOCKS_HPP

// Blocks that nobody has any more, and what they are made of: the average of the neighbouring stages, weighted by the
// squared norms of their gradients (CheckFree, Blagoev et al., 2025).

#include <causeway/config/config.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/elastic/block_moves.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Blocks in a row that no peer of the snapshot holds.
CAUSEWAY_DECL [[nodiscard]] std::vector<nn::block_range> lost_runs(const stage::cluster_snapshot& g);

/// W = share · W_before + (1 - share) · W_behind.
struct made_up_block {
  std::int64_t block = 0;
  std::int64_t before = 0;
  std::int64_t behind = 0;
  float share = 0.5F;
};

/// For each lost block the blocks at its place in the stages before and behind, taken as long as what is lost; where these
/// are shorter, the last ones there are that somebody holds. Precondition: no run of lost blocks is at an end of the model.
CAUSEWAY_DECL [[nodiscard]] std::vector<made_up_block> made_up_for(const stage::cluster_snapshot& g);

/// Who sends which block to whom, so that all that are to hold a lost block can make it up. A peer may send to itself.
CAUSEWAY_DECL [[nodiscard]] std::vector<block_move> sources_of(std::span<const made_up_block> lost, const stage::layout& to,
                                                               const stage::cluster_snapshot& g);

/// The parameters alone, out of contents with `moments` times as much behind them.
CAUSEWAY_DECL [[nodiscard]] block_contents parameters_of(block_contents all, std::size_t moments);

/// Contents of `size` values with `moments`, which are zero, from the parameters of the blocks that it is made of. The
/// first and the last block have more than the others, in front of and behind what is theirs.
CAUSEWAY_DECL [[nodiscard]] block_contents made_up(const made_up_block& m, std::size_t size, std::size_t moments,
                                                   std::span<const float> before, std::span<const float> behind);

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/elastic/impl/interpolated_blocks.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_ELASTIC_INTERPOLATED_BLOCKS_HPP
