// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_LOCAL_ASYNC_PIPELINE_HPP
#define CAUSEWAY_PARALLEL_LOCAL_ASYNC_PIPELINE_HPP

// Asynchronous pipelines whose peers come and go: local_pipeline whose replicas have no flush between two exchanges.

#include <causeway/config/config.hpp>
#include <causeway/parallel/elastic/streamed_steps.hpp>
#include <causeway/parallel/local_pipeline.hpp>
#include <causeway/policy/concepts.hpp>
#include <causeway/stage/activation.hpp>
#include <causeway/stage/recovery.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// DiLoCo (Douillard et al., arXiv 2311.08105) whose workers are pipelines as PipeDream's (Narayanan et al., SOSP 2019),
/// and all that local_pipeline says of rounds, replicas, losses and newcomers. Steps are those of async_pipeline, each
/// stage by its own late gradients, but that all micro-batches come back in the last step before an exchange: see
/// streamed_steps. So all stages have made H updates then, and by each micro-batch one.
///
/// Before its first gradient is back a stage stands still, and the loss is not a number: in each round anew. Gradients are
/// clipped by the norm of each stage's own. Batches of one round have one shape. What a lost peer of another replica costs
/// is messages that are sent again. A checkpoint between two exchanges leaves out what is in flight: those micro-batches
/// count, but nobody learns from them. After an exchange it goes on with the same bits.
///
/// Needs what local_pipeline needs, and a codec that reads no embedding; rule C7 refuses gradients, whose exchange would
/// drain the pipeline in every step.
///
/// Bytes: boundaries as async_pipeline; nothing else within a replica. Memory: as async_pipeline; beside it the encoded
/// boundary tensors of d + 1 micro-batches each way.
template <stage::Recovery Recovery = stage::recovery::regroup, stage::ActivationCodec Codec = stage::plain>
using local_async_pipeline = local_pipeline<Recovery, streamed_steps, Codec>;
static_assert(ParallelismPolicy<local_async_pipeline<>>);

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_LOCAL_ASYNC_PIPELINE_HPP
