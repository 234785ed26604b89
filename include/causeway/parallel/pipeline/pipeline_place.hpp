// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_PIPELINE_PIPELINE_PLACE_HPP
#define CAUSEWAY_PARALLEL_PIPELINE_PIPELINE_PLACE_HPP

// Which peer holds which stage of which replica, and which blocks that is. A replica is one whole pipeline; its ranks are
// peers in the order of the model.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/plan/schedule.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Equal on all peers.
struct pipeline_options {
  std::int64_t micro_batches = 4;  ///< pieces that a batch is cut into; more: less bubble, smaller products
  std::uint32_t ranks = 0;         ///< peers of a pipeline; 0: all peers are one pipeline
  /// [replica][rank]: the peer, as a planner placed it. None: peer = replica · ranks + rank.
  std::vector<std::vector<net::peer_index>> placement{};
  /// The first block of every virtual stage but the first, rising. None: blocks are spread evenly.
  std::vector<std::int64_t> cuts{};
  /// Stages of different replicas are paired anew for every micro-batch, at random (NoLoCo):
  /// parallel/pipeline/random_routes.hpp.
  bool random_routes = false;
};

/// Where a peer is.
struct pipeline_place {
  std::uint32_t replica = 0;
  std::uint32_t rank = 0;
  std::vector<net::peer_index> pipeline;             ///< the peers of its pipeline, by rank
  std::vector<net::peer_index> group;                ///< the peers of all pipelines that hold the same stage, by replica
  std::vector<std::vector<net::peer_index>> rows{};  ///< [replica][rank]: everybody

  [[nodiscard]] std::uint32_t ranks() const noexcept { return static_cast<std::uint32_t>(pipeline.size()); }
  [[nodiscard]] std::uint32_t replicas() const noexcept { return static_cast<std::uint32_t>(group.size()); }
};

/// Where `self` of `peers` peers is. errc::unsupported: of none, since peers that come and go have no numbers; any other
/// error: the options do not fit them.
CAUSEWAY_DECL [[nodiscard]] result<pipeline_place> place_in(const pipeline_options& o, net::peer_index self,
                                                            std::uint32_t peers);

/// The blocks of each chunk of a rank, for a model of `layers` blocks and a schedule with `chunks` parts on each rank,
/// which micro-batches go through as `path` says.
CAUSEWAY_DECL [[nodiscard]] result<std::vector<nn::block_range>> chunks_of(const pipeline_options& o,
                                                                           const pipeline_place& at, std::int64_t layers,
                                                                           std::uint32_t chunks = 1,
                                                                           plan::stage_path path = plan::stage_path::round);

/// What of the model that is: the same blocks, where chunks that stand one after another are one range.
CAUSEWAY_DECL [[nodiscard]] result<nn::model_part> part_of(const pipeline_options& o, const pipeline_place& at,
                                                           std::int64_t layers, std::uint32_t chunks = 1,
                                                           plan::stage_path path = plan::stage_path::round);

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/pipeline/impl/pipeline_place.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_PIPELINE_PIPELINE_PLACE_HPP
