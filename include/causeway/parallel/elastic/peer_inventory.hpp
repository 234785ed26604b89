// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_PEER_INVENTORY_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_PEER_INVENTORY_HPP

// What the peers of an attempt tell each other before they can agree on a layout: who they are and what they hold.

#include <causeway/collective/gather.hpp>
#include <causeway/collective/options.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/codec.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/elastic/step_turns.hpp>
#include <causeway/stage/recovery.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// What must be equal on all peers, and is checked.
struct pipeline_agreement {
  std::uint64_t hash = 0;  ///< of model, schedule, codec, recovery
  std::int64_t layers = 0;
  std::uint32_t micro_batches = 0;
};

/// What a peer says when peers meet.
struct peer_inventory {
  stage::present_peer peer;
  step_turn turn;
  std::uint64_t storage = 0;  ///< block_store::identity; 0: it has none
};

CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> encode(const peer_inventory& m, std::uint64_t agreed);

/// errc::wrong_model: another model or other options than ours.
CAUSEWAY_DECL [[nodiscard]] result<peer_inventory> decode_peer_inventory(std::span<const std::byte> bytes,
                                                                         const pipeline_agreement& ours);

/// The peers of an attempt, and the transport's number of each.
struct cluster_inventory {
  stage::cluster_snapshot snapshot;
  std::vector<net::peer_index> index_of;  ///< [place in snapshot.peers]
  net::peer_index self = 0;               ///< place of this peer
  std::vector<step_turn> turns;           ///< [place]
  std::vector<std::uint64_t> storages;    ///< [place], see peer_inventory
};

/// From and to everybody; 74 bytes, 16 for each range and 8 for each block that a peer holds; 16 more where it has begun
/// the step.
CAUSEWAY_DECL result<cluster_inventory> gather_inventory(net::any_transport& transport, const net::message_id& id,
                                                         const peer_inventory& own, const pipeline_agreement& ours,
                                                         const collective::collective_options& options);

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/elastic/impl/peer_inventory.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_ELASTIC_PEER_INVENTORY_HPP
