// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_BLOCK_MOVES_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_BLOCK_MOVES_HPP

// Blocks of a model on their way to peers that are to hold them from now on: which go from whom to whom, and how parameters
// and optimizer state of one become a message.

#include <causeway/collective/flight.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>
#include <causeway/tensor/parameters.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// `from` and `to` are places in cluster_snapshot::peers.
struct block_move {
  std::int64_t block = 0;
  net::peer_index from = 0;
  net::peer_index to = 0;

  friend bool operator==(const block_move&, const block_move&) = default;
};

/// What must move so that everybody has what it is to hold; blocks that nobody has are left out. Each comes from the holder
/// that sends least so far.
CAUSEWAY_DECL [[nodiscard]] std::vector<block_move> moves_for(const stage::layout& to, const stage::cluster_snapshot& g);

/// The place of blocks [range.first, range.last) in flat buffers with these segments; what stands before the first block
/// goes with it, what stands behind the last likewise. Precondition: they are held.
CAUSEWAY_DECL [[nodiscard]] std::span<float> blocks_in(std::span<float> flat, std::span<const parameter_segment> segments,
                                                       const nn::block_range& range, std::int64_t layers);

/// Contents of a block: parameters, then each of the optimizer's moments.
using block_contents = std::vector<float>;

/// Sends and receives `moves` of this peer, `self` in cluster_snapshot::peers; `index_of[p]` is the transport's number of
/// place p. `outward` has the contents of what it sends, `inward` room for what it receives, by block. errc::non_finite: a
/// peer sent what are no parameters. Bytes: the blocks, 12 a parameter with AdamW.
CAUSEWAY_DECL result<void> move_blocks(net::any_transport& transport, const net::message_id& id, time_point deadline,
                                       const std::vector<block_move>& moves, net::peer_index self,
                                       std::span<const net::peer_index> index_of,
                                       const std::map<std::int64_t, block_contents>& outward,
                                       std::map<std::int64_t, block_contents>& inward);

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/elastic/impl/block_moves.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_ELASTIC_BLOCK_MOVES_HPP
