// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_PIPELINES_HPP
#define CAUSEWAY_PRESETS_PIPELINES_HPP

// Published systems of pipeline parallelism on slow links, as compositions of a schedule, an activation codec and a
// placement. Each is the parallelism of a trainer; replicas of the pipeline average with any communication policy, which in
// these papers is comm::every_step.

#include <causeway/compress/bf16.hpp>
#include <causeway/compress/fp16.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/parallel/async_pipeline.hpp>
#include <causeway/parallel/pipeline.hpp>
#include <causeway/plan/placement.hpp>
#include <causeway/plan/stage_costs.hpp>
#include <causeway/stage/activation.hpp>
#include <causeway/stage/adaptive_top_k.hpp>
#include <causeway/stage/delta.hpp>
#include <causeway/stage/schedules.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace presets {

namespace detail {

/// [replica][rank] of a planner's placement, whose devices are peers.
CAUSEWAY_DECL [[nodiscard]] std::vector<std::vector<net::peer_index>> rows_of(const plan::placement& where);

}  // namespace detail

/// Varuna (Athlur et al., EuroSys 2022): stages recompute just before their gradient arrives, and ranks that wait run what
/// is ready. Its job morphing, another shape when peers come and go, is plan::varuna_search and a restart.
///
/// Formula:
///   g = Σ over m micro-batches / m, activations and gradients in fp16 at boundaries;  x ← optimizer(x, g)
/// Sent: an activation and a gradient in fp16 over each boundary for each micro-batch.
struct varuna_options {
  std::int64_t micro_batches = 32;
  std::uint32_t ranks = 0;          ///< peers of a pipeline; 0: all
  plan::stage_costs costs{};        ///< measured seconds of stages and links; none: all alike
  std::uint32_t stored_inputs = 0;  ///< at most, on each rank; 0: twice the ranks
};
using varuna = parallel::pipeline<stage::varuna, stage::coded<compress::fp16>>;
CAUSEWAY_DECL [[nodiscard]] varuna make(const varuna_options& o);

/// DTFM (Yuan et al., NeurIPS 2022): GPipe on the placement that plan::plan_dtfm finds on measured links, with half
/// precision on the wire.
///
/// Formula:
///   placement: argmin over partitions of the slowest all-reduce of a stage + the longest path through the stages
///   g = Σ over m micro-batches / m, activations and gradients in fp16 at boundaries;  x ← optimizer(x, g)
/// Sent: an activation and a gradient in fp16 over each boundary for each micro-batch; gradients among who has a stage.
struct dtfm_options {
  std::int64_t micro_batches = 64;
  plan::placement where{};  ///< of plan::plan_dtfm; none: peers in their order
  std::uint32_t ranks = 0;  ///< where there is no placement
};
using dtfm = parallel::pipeline<stage::gpipe, stage::coded<compress::fp16>>;
CAUSEWAY_DECL [[nodiscard]] dtfm make(const dtfm_options& o);

/// AQ-SGD (Wang et al., NeurIPS 2022): activations as quantised changes since the sample's last visit, gradients quantised
/// directly. Needs samples that come again: batches with `samples`, and a sampler without shifted grid.
///
/// Formula:
///   first visit of sample s: m_s = fp16(a_s);  later: m_s ← m_s + Q4(a_s − m_s);  the next stage works with m_s
///   backward: Q8(g);  x ← optimizer(x, mean of gradients)
/// Sent: fp16 in the first epoch, then 4 bits a value forward; 8 bits backward.
struct aq_sgd_pipeline_options {
  std::int64_t micro_batches = 8;
  std::uint32_t ranks = 0;
  std::size_t memory_limit = std::size_t{1} << 30U;  ///< bytes of the samples' buffers on a peer
};
using aq_sgd_pipeline = parallel::pipeline<stage::gpipe, stage::delta<4, 8, compress::fp16>>;
CAUSEWAY_DECL [[nodiscard]] aq_sgd_pipeline make(const aq_sgd_pipeline_options& o);

/// CrossPipe (2025): the order that list scheduling finds on an explicit model of delays and bandwidths, with backwards in
/// halves. Derived from the paper's model, not from its solver.
///
/// Formula:
///   order: list scheduling of F, B and W on given seconds of stages, delays and bandwidths
///   g = Σ over m micro-batches / m, in bf16 at boundaries;  x ← optimizer(x, g)
/// Sent: an activation and a gradient in bf16 over each boundary for each micro-batch.
struct crosspipe_options {
  std::int64_t micro_batches = 16;
  std::uint32_t ranks = 0;
  plan::stage_costs costs{};      ///< seconds of stages and links; none: all alike, which is a zero bubble
  std::uint32_t activations = 0;  ///< micro-batches that a rank may hold; 0: twice the ranks
};
using crosspipe = parallel::pipeline<stage::crosspipe, stage::coded<compress::bf16>>;
CAUSEWAY_DECL [[nodiscard]] crosspipe make(const crosspipe_options& o);

/// FusionLLM (Tang et al. 2024): GPipe over peers of unequal links, each of which sends the largest values, as many as it
/// carries in the time that all take. Its cut by measured devices is plan::stage_split, given as `cuts`. Cuts are between
/// blocks. The paper cuts a graph of operators. In a transformer with a residual stream one tensor of tokens x width
/// crosses a cut between blocks, and between attention and MLP of a block; at every other operator the stream crosses
/// beside what is computed, two to five times as much. Cuts within a block are not built. Nor is OP-Fence, which puts
/// neighbours on devices of one cluster of bandwidths: no public text has more of it than that; plan::plan_dtfm orders
/// stages by links.
///
/// Formula:
///   boundary e: the k_e largest of each 4,096 values, k_e so that bytes = 4·values / (ratio · slowest/speed_e)
///   g = Σ over m micro-batches / m, with what arrived at boundaries;  x ← optimizer(x, g)
/// Sent: places and values of the largest entries over each boundary, both ways, for each micro-batch.
struct fusion_llm_options {
  std::int64_t micro_batches = 8;
  std::uint32_t ranks = 0;
  double ratio = 100;                ///< how many times fewer bytes than f32 the slowest link sends
  stage::edge_speeds speeds{};       ///< bytes per second of each boundary's link; none: all by the ratio
  std::vector<std::int64_t> cuts{};  ///< first block of every stage but the first; none: even
};
using fusion_llm = parallel::pipeline<stage::gpipe, stage::adaptive_top_k<>>;
CAUSEWAY_DECL [[nodiscard]] fusion_llm make(const fusion_llm_options& o);

/// NAG-PP (Ajanthan et al., ICML 2025): stages that never wait for a flush, late gradients, and an inner optim::nadam whose
/// look-ahead makes up for the delay. Backwards use the parameters of their forward, as the authors' program does; without
/// `stashing` it is the paper's form for little memory.
///
/// Formula:
///   stage k moves after each backward, by gradients of parameters that are some updates old:
///   NAdam: m ← β1·m + (1 − β1)·g;  v ← β2·v + (1 − β2)·g²;  x ← x − lr·(μ'·m̂ + (1 − μ)·ĝ) / (√v̂ + ε)
/// Sent: an activation and a gradient in f32 over each boundary for each micro-batch; there is no flush.
struct nag_pp_options {
  std::int64_t micro_batches = 1;  ///< between two updates
  std::uint32_t ranks = 0;
  bool stashing = true;     ///< keep the parameters of each forward for its backward, as PipeDream does
  std::uint32_t ahead = 0;  ///< micro-batches in flight on each boundary besides one: hides latency, delays gradients
};
using nag_pp = parallel::async_pipeline<stage::plain>;
CAUSEWAY_DECL [[nodiscard]] nag_pp make(const nag_pp_options& o);

/// Basis rotation (Jung, Shin and Lee, ICML 2026): stages that never wait for a flush, as in PipeDream, and an inner
/// optim::basis_rotation (causeway/optim/basis_rotation.hpp): Adam in the eigenbasis of each matrix's gradients, where late
/// gradients do less harm. Bases are of the covariances of gradients, the paper's second-order source, or of the momentum
/// alone (`first_order`). The authors' program clips a stage's matrices and the rest each by its own norm: the optimizer's
/// `clip_norm`; the trainer's is one norm of all stages.
///
/// Formula:
///   L ← β2·L + (1 − β2)·G·Gᵀ;  R ← β2·R + (1 − β2)·Gᵀ·G;  every T steps:  U ← QR(L·U),  V ← QR(R·V)
///   M ← β1·M + (1 − β1)·G;  v ← β2·v + (1 − β2)·(UᵀGV)²;  W ← W − lr·U·((UᵀMV)^ / (√v̂ + ε))·Vᵀ
/// Sent: an activation and a gradient in f32 over each boundary for each micro-batch; there is no flush.
struct basis_rotation_options {
  std::int64_t micro_batches = 1;  ///< between two updates
  std::uint32_t ranks = 0;
  bool stashing = true;     ///< keep the parameters of each forward for its backward, as PipeDream does
  std::uint32_t ahead = 0;  ///< micro-batches in flight on each boundary besides one: hides latency, delays gradients
};
using basis_rotation = parallel::async_pipeline<stage::plain>;
CAUSEWAY_DECL [[nodiscard]] basis_rotation make(const basis_rotation_options& o);

}}}  // namespace causeway::CAUSEWAY_ABI::presets

#ifndef CAUSEWAY_COMPILED
#include <causeway/presets/impl/pipelines.ipp>
#endif

#endif  // CAUSEWAY_PRESETS_PIPELINES_HPP
