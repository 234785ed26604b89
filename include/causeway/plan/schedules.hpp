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

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::plan {

namespace detail {

inline constexpr std::uint64_t most_operations = std::uint64_t{1} << 26U;  // of one schedule: 800 MB

/// An empty schedule of these sizes, or why there is none.
[[nodiscard]] inline result<schedule> start_schedule(std::uint32_t ranks, std::uint32_t chunks,
                                                     std::uint32_t micro_batches) {
  if (ranks == 0 || chunks == 0 || micro_batches == 0)
    return fail(errc::invalid_argument, "schedule", "needs at least one rank, one chunk and one micro-batch");
  const std::uint64_t stages = std::uint64_t{ranks} * chunks;  // no overflow: both have 32 bits
  if (stages > most_operations || stages * micro_batches > most_operations / 3) {
    return fail(errc::too_large, "schedule",
                std::to_string(ranks) + " ranks of " + std::to_string(chunks) + " chunks with " +
                    std::to_string(micro_batches) + " micro-batches are too many operations; use fewer micro-batches");
  }
  schedule s{ranks, chunks, micro_batches, true, {}};
  s.orders.resize(ranks);
  return s;
}

/// Forwards ahead of the first backward, then one backward for each forward, then the backwards that remain.
[[nodiscard]] inline std::vector<operation> one_for_one(std::uint32_t warm_up, std::uint32_t micro_batches) {
  std::vector<operation> order;
  order.reserve(std::size_t{2} * micro_batches);
  std::uint32_t forward = 0;
  while (forward < std::min(warm_up, micro_batches)) order.push_back({work::forward, forward++});
  for (std::uint32_t backward = 0; backward < micro_batches; ++backward) {
    if (forward < micro_batches) order.push_back({work::forward, forward++});
    order.push_back({work::backward, backward});
  }
  return order;
}

}  // namespace detail

/// GPipe (Huang et al., NeurIPS 2019): all forwards, then all backwards. Holds the activations of all micro-batches.
/// Bubble with equal stages: (p - 1) / (m + p - 1) of the step, for p ranks and m micro-batches.
[[nodiscard]] inline result<schedule> gpipe(std::uint32_t ranks, std::uint32_t micro_batches) {
  CAUSEWAY_ASSIGN(schedule s, detail::start_schedule(ranks, 1, micro_batches));
  for (auto& order : s.orders) order = detail::one_for_one(micro_batches, micro_batches);
  return s;
}

/// Forwards alone, chunk by chunk: an evaluation.
[[nodiscard]] inline result<schedule> forwards_only(std::uint32_t ranks, std::uint32_t chunks,
                                                    std::uint32_t micro_batches) {
  CAUSEWAY_ASSIGN(schedule s, detail::start_schedule(ranks, chunks, micro_batches));
  for (auto& order : s.orders) {
    for (std::uint32_t c = 0; c < chunks; ++c) {
      for (std::uint32_t m = 0; m < micro_batches; ++m) order.push_back({work::forward, m, c});
    }
  }
  return s;
}

/// PipeDream-flush (Narayanan et al., ICML 2021), "1F1B": rank r runs p - 1 - r forwards ahead, then alternates. The bubble
/// of GPipe, but at most p - r sets of activations on rank r.
[[nodiscard]] inline result<schedule> one_f_one_b(std::uint32_t ranks, std::uint32_t micro_batches) {
  CAUSEWAY_ASSIGN(schedule s, detail::start_schedule(ranks, 1, micro_batches));
  for (std::uint32_t r = 0; r < ranks; ++r) s.orders[r] = detail::one_for_one(ranks - 1 - r, micro_batches);
  return s;
}

/// Interleaved 1F1B (Narayanan et al., SC 2021; the order of Megatron-LM): each rank holds `chunks` parts of the model, and
/// micro-batches go through them in groups of `ranks`. `micro_batches` must be a multiple of `ranks`.
/// Bubble: (p - 1) / (v m + p - 1) of the step for v chunks, at up to 2 (p - 1 - r) + (v - 1) p + 1 activations of 1 / v
/// the size.
[[nodiscard]] inline result<schedule> interleaved(std::uint32_t ranks, std::uint32_t chunks, std::uint32_t micro_batches) {
  CAUSEWAY_ASSIGN(schedule s, detail::start_schedule(ranks, chunks, micro_batches));
  if (micro_batches % ranks != 0) {
    return fail(errc::invalid_argument, "interleaved",
                "needs a number of micro-batches that the " + std::to_string(ranks) + " ranks divide, not " +
                    std::to_string(micro_batches) + "; change it, or use one_f_one_b");
  }
  const std::uint32_t units = chunks * micro_batches;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    // Twice the way to the last rank: a micro-batch comes back from its last chunk as it went there. With one chunk the
    // forwards ahead of 1F1B suffice.
    const std::uint32_t ahead = chunks == 1 ? ranks - 1 - r : 2 * (ranks - 1 - r) + (chunks - 1) * ranks;
    const auto unit = [&](work kind, std::uint32_t k) {
      const std::uint32_t chunk = k / ranks % chunks;
      const std::uint32_t micro_batch = k / (ranks * chunks) * ranks + k % ranks;
      return operation{kind, micro_batch, kind == work::forward ? chunk : chunks - 1 - chunk};
    };
    for (const operation& op : detail::one_for_one(ahead, units)) s.orders[r].push_back(unit(op.kind, op.micro_batch));
  }
  return s;
}

/// ZB-H1 (Qi et al., ICLR 2024, arXiv 2401.10241): 1F1B with backwards in halves. Only the input gradient keeps the stage
/// before waiting; rank r stays r weight gradients behind and runs them where 1F1B has its last bubble. Every rank holds up
/// to p sets of activations, as many as rank 0 of 1F1B. Each rank waits (p - 1)(F + I - W) seconds for m >= p, equal stages
/// and W <= F; above that (p - 1) I, as a weight gradient then delays the next forward.
[[nodiscard]] inline result<schedule> zero_bubble(std::uint32_t ranks, std::uint32_t micro_batches) {
  CAUSEWAY_ASSIGN(schedule s, detail::start_schedule(ranks, 1, micro_batches));
  for (std::uint32_t r = 0; r < ranks; ++r) {
    std::uint32_t done = 0;  // weight gradients
    for (const operation& op : detail::one_for_one(ranks - 1 - r, micro_batches)) {
      const bool halves = op.kind == work::backward;
      s.orders[r].push_back({halves ? work::input_gradient : op.kind, op.micro_batch});
      if (halves && op.micro_batch >= r) s.orders[r].push_back({work::weight_gradient, done++});
    }
    while (done < micro_batches) s.orders[r].push_back({work::weight_gradient, done++});
  }
  return s;
}

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
[[nodiscard]] inline result<schedule> asynchronous(std::uint32_t ranks, std::uint32_t micro_batches) {
  CAUSEWAY_ASSIGN(schedule s, one_f_one_b(ranks, micro_batches));
  s.flushes = false;
  return s;
}

/// The same schedule with activations recomputed: forwards store only their input, and a recompute stands right before each
/// backward (or input gradient), but not where the forward itself stands there. GPipe's and Megatron's checkpoints.
[[nodiscard]] inline schedule with_recompute(const schedule& s) {
  schedule out = s;
  for (auto& order : out.orders) {
    const std::vector<operation> before = std::exchange(order, {});
    for (std::size_t i = 0; i < before.size(); ++i) {
      const operation& op = before[i];
      const bool fresh = i > 0 && before[i - 1] == operation{work::forward, op.micro_batch, op.chunk};
      if (gives_input_gradient(op.kind) && !fresh) order.push_back({work::recompute, op.micro_batch, op.chunk});
      order.push_back(op);
    }
  }
  return out;
}

/// The part of a step in which each rank waits with equal stages and no cost of links: (p - 1) / (v m + p - 1), of gpipe
/// and one_f_one_b for v = 1 chunk and of interleaved.
[[nodiscard]] constexpr double flush_bubble(std::uint32_t ranks, std::uint32_t micro_batches, std::uint32_t chunks = 1) {
  CAUSEWAY_EXPECT(ranks > 0 && micro_batches > 0 && chunks > 0);
  return (ranks - 1.0) / (static_cast<double>(chunks) * micro_batches + ranks - 1.0);
}

}  // namespace causeway::inline CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_SCHEDULES_HPP
