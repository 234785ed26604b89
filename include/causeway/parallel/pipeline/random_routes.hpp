// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_PIPELINE_RANDOM_ROUTES_HPP
#define CAUSEWAY_PARALLEL_PIPELINE_RANDOM_ROUTES_HPP

// Replicas of a pipeline whose stages are paired anew for every micro-batch: at each boundary a random permutation says to
// which replica's next stage each replica's stage sends. Every peer has one micro-batch in each place of its order, as with
// fixed pairs, and gradients go back the way that activations came. (Kolehmainen et al., NoLoCo, 2025, "dynamic pipeline
// routing"; github.com/jkolehm/noloco 006b799, dipaco_pipeline.py.)

#include <causeway/collective/group_view.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/parallel/pipeline/pipeline_exchange.hpp>
#include <causeway/tensor/batch.hpp>

#include <cstdint>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// The same on all peers that are given the same seed. A regular value.
class random_routes {
 public:
  random_routes() = default;
  /// `replicas` of `stages` each.
  CAUSEWAY_DECL random_routes(std::uint32_t replicas, std::uint32_t stages, std::uint64_t seed);

  /// [replica]: to which replica's stage + 1 that replica's `stage` sends this micro-batch of a step.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::uint32_t> next(std::uint64_t step, std::uint32_t micro_batch,
                                                              std::uint32_t stage) const;

  /// [stage]: the replica whose stage is on the way that goes through `stage` of `replica`.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::uint32_t> way(std::uint64_t step, std::uint32_t micro_batch,
                                                             std::uint32_t replica, std::uint32_t stage) const;

 private:
  std::uint32_t replicas_ = 1, stages_ = 1;
  std::uint64_t seed_ = 0;
};

/// The targets of the micro-batches that come to a last stage: those of the replicas where they began. Called by the last
/// stages of all replicas (`last_stages`: by replica), each with its own replica's batch; `targets` is as long as that.
/// Bytes: 4 for each token that began elsewhere.
CAUSEWAY_DECL result<void> swap_targets(collective::group_view& last_stages, const random_routes& routes,
                                        std::uint32_t stages, std::uint32_t micro_batches, const batch& mine,
                                        std::vector<std::int32_t>& targets, const pipeline_exchange& exchange);

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/pipeline/impl/random_routes.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_PIPELINE_RANDOM_ROUTES_HPP
