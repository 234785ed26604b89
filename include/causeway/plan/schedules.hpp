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

/// PipeDream-flush (Narayanan et al., ICML 2021), "1F1B": rank r runs p - 1 - r forwards ahead, then alternates. The bubble
/// of GPipe, but at most p - r sets of activations on rank r.
[[nodiscard]] inline result<schedule> one_f_one_b(std::uint32_t ranks, std::uint32_t micro_batches) {
  CAUSEWAY_ASSIGN(schedule s, detail::start_schedule(ranks, 1, micro_batches));
  for (std::uint32_t r = 0; r < ranks; ++r) s.orders[r] = detail::one_for_one(ranks - 1 - r, micro_batches);
  return s;
}

}  // namespace causeway::inline CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_SCHEDULES_HPP
