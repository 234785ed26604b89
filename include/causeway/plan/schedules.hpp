// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_SCHEDULES_HPP
#define CAUSEWAY_PLAN_SCHEDULES_HPP

// Schedules of pipelines with a closed form. In all of them the backwards of a chunk run in the order of the micro-batches,
// 0, 1, 2, ..., on every rank: gradients are then added up in the order of the unsplit model and have its bits. (The GPipe
// of the paper runs them the other way; its bubble and memory are the same.)

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/schedule.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

namespace detail {

/// An empty schedule of these sizes, or why there is none.
CAUSEWAY_DECL [[nodiscard]] result<schedule> start_schedule(std::uint32_t ranks, std::uint32_t chunks,
                                                            std::uint32_t micro_batches);

}  // namespace detail

/// GPipe (Huang et al., NeurIPS 2019): all forwards, then all backwards. Holds the activations of all micro-batches.
/// Bubble with equal stages: (p - 1) / (m + p - 1) of the step, for p ranks and m micro-batches.
CAUSEWAY_DECL [[nodiscard]] result<schedule> gpipe(std::uint32_t ranks, std::uint32_t micro_batches);

/// Forwards alone, chunk by chunk: an evaluation.
CAUSEWAY_DECL [[nodiscard]] result<schedule> forwards_only(std::uint32_t ranks, std::uint32_t chunks,
                                                           std::uint32_t micro_batches,
                                                           stage_path path = stage_path::round);

/// PipeDream-flush (Narayanan et al., ICML 2021), "1F1B": rank r runs p - 1 - r forwards ahead, then alternates. The bubble
/// of GPipe, but at most p - r sets of activations on rank r.
CAUSEWAY_DECL [[nodiscard]] result<schedule> one_f_one_b(std::uint32_t ranks, std::uint32_t micro_batches);

/// Interleaved 1F1B (Narayanan et al., SC 2021; the order of Megatron-LM): each rank holds `chunks` parts of the model, and
/// micro-batches go through them in groups of `ranks`. `micro_batches` must be a multiple of `ranks`.
/// Bubble: (p - 1) / (v m + p - 1) of the step for v chunks, at up to 2 (p - 1 - r) + (v - 1) p + 1 activations of 1 / v
/// the size.
CAUSEWAY_DECL [[nodiscard]] result<schedule> interleaved(std::uint32_t ranks, std::uint32_t chunks,
                                                         std::uint32_t micro_batches);

/// ZB-H1 (Qi et al., ICLR 2024, arXiv 2401.10241): 1F1B with backwards in halves. Only the input gradient keeps the stage
/// before waiting; rank r stays r weight gradients behind and runs them where 1F1B has its last bubble. Every rank holds up
/// to p sets of activations, as many as rank 0 of 1F1B. Each rank waits (p - 1)(F + I - W) seconds for m >= p, equal stages
/// and W <= F; above that (p - 1) I, as a weight gradient then delays the next forward.
CAUSEWAY_DECL [[nodiscard]] result<schedule> zero_bubble(std::uint32_t ranks, std::uint32_t micro_batches);

/// ZB-H2 (the same paper): twice as many forwards ahead, and twice as many weight gradients behind, fill the first bubble,
/// too. Between its first operation and its last rank 0 waits (p - 1)(F + I - 2W) seconds, and not at all where that is 0:
/// when all three take the same time, say. For m >= 2p - 1, equal stages and W <= F; above that as if W were F. The step as
/// a whole takes (p - 1) max(F, F + I - 2W) longer than its work, since ranks begin one after another; they go on with the
/// next step likewise. Up to 2p - 1 sets of activations on every rank.
CAUSEWAY_DECL [[nodiscard]] result<schedule> zero_bubble_h2(std::uint32_t ranks, std::uint32_t micro_batches);

/// ZB-V (the same paper, section 6; the order is that of PyTorch's ScheduleZBVZeroBubble): a folded pipeline of two chunks
/// of half the size on each rank, so that rank 0 has the first stage and the last. When F, I and W take the same time, a
/// rank works without a pause from its first operation to its last, for m >= 2p - 1 and equal stages, in half the memory of
/// ZB-H2: up to 2p sets of activations of half the size, as rank 0 of 1F1B. The step as a whole takes p - 1 forwards of a
/// chunk longer than its work.
CAUSEWAY_DECL [[nodiscard]] result<schedule> zero_bubble_v(std::uint32_t ranks, std::uint32_t micro_batches);

/// The k-th operation (0, 1, ...) of a rank in PipeDream's endless stream (Narayanan et al., SOSP 2019): p - r forwards,
/// then a backward and a forward in turn, without a flush. A stage updates its weights after each backward, so that
/// p - 1 - r updates come between a micro-batch's forward and its backward on rank r.
[[nodiscard]] constexpr operation stream_operation(std::uint32_t ranks, std::uint32_t rank, std::uint64_t k) noexcept {
  const std::uint64_t warm_up = ranks - rank;
  if (k < warm_up) return {work::forward, static_cast<std::uint32_t>(k)};
  const std::uint64_t turn = k - warm_up;
  if (turn % 2 == 0) return {work::backward, static_cast<std::uint32_t>(turn / 2)};
  return {work::forward, static_cast<std::uint32_t>(warm_up + turn / 2)};
}

/// A stretch of that stream: its first `micro_batches`, all of which come to their end. No flush in between, `flushes` is
/// false; the bubble is that of filling the pipeline once. The order is that of 1F1B: only the updates differ.
CAUSEWAY_DECL [[nodiscard]] result<schedule> asynchronous(std::uint32_t ranks, std::uint32_t micro_batches);

/// The same schedule with activations recomputed: forwards store only their input, and a recompute stands right before each
/// backward (or input gradient), but not where the forward itself stands there. GPipe's and Megatron's checkpoints.
CAUSEWAY_DECL [[nodiscard]] schedule with_recompute(const schedule& s);

/// The part of a step in which each rank waits with equal stages and no cost of links: (p - 1) / (v m + p - 1), of gpipe
/// and one_f_one_b for v = 1 chunk and of interleaved.
[[nodiscard]] constexpr double flush_bubble(std::uint32_t ranks, std::uint32_t micro_batches, std::uint32_t chunks = 1) {
  CAUSEWAY_EXPECT(ranks > 0 && micro_batches > 0 && chunks > 0);
  return (ranks - 1.0) / (static_cast<double>(chunks) * micro_batches + ranks - 1.0);
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/schedules.ipp>
#endif

#endif  // CAUSEWAY_PLAN_SCHEDULES_HPP
