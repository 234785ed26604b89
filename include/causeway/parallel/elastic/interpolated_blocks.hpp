// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_INTERPOLATED_BLOCKS_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_INTERPOLATED_BLOCKS_HPP

// Blocks that nobody has any more, and how they become what the recovery policy makes of them: who sends what, and the
// mean of it.

#include <causeway/config/config.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/parallel/elastic/block_moves.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Who sends which block to whom, so that all that are to hold a lost block can make it up. A peer may send to itself.
CAUSEWAY_DECL [[nodiscard]] std::vector<block_move> sources_of(const std::vector<stage::made_up_block>& lost,
                                                               const stage::layout& to, const stage::cluster_snapshot& g);

/// A block's `count` parameters, from those of the blocks that it is made of. The first and the last block have more than
/// the others, in front of and behind what is theirs.
CAUSEWAY_DECL [[nodiscard]] block_contents made_up(const stage::made_up_block& m, std::size_t count,
                                                   std::span<const float> before, std::span<const float> behind);

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/elastic/impl/interpolated_blocks.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_ELASTIC_INTERPOLATED_BLOCKS_HPP
