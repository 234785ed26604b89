// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_ROUTED_SCHEDULE_HPP
#define CAUSEWAY_PLAN_ROUTED_SCHEDULE_HPP

// A schedule in which micro-batches go different ways, as data: who does what in which order. What several pipelines do
// together when the twins of a lost peer take its micro-batches (ReCycle). Written by the simulation of routed_time.hpp, or
// by anybody; checked here.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/routed_time.hpp>
#include <causeway/plan/schedule.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct routed_schedule {
  std::vector<std::vector<std::uint32_t>> routes;  ///< [micro-batch][stage]: peer
  std::vector<std::vector<operation>> orders;      ///< [peer]; an operation's chunk is its stage

  [[nodiscard]] std::size_t stages() const noexcept { return routes.empty() ? 0 : routes.front().size(); }
};

/// What the peers of that step do. See routed_time.hpp.
CAUSEWAY_DECL [[nodiscard]] routed_schedule schedule_of(const routed_step& step);

/// Of a pipeline whose first rank has embedding and output layer: micro-batches leave it, go through the other ranks and
/// come back to it, so there is a place more than ranks. [micro-batch][place]: rank.
CAUSEWAY_DECL [[nodiscard]] std::vector<std::vector<std::uint32_t>> ring_routes(std::uint32_t ranks,
                                                                                std::uint32_t micro_batches);

/// The same where every other one, by their numbers in the batch, goes the other way round through the two ranks behind the
/// first, and through the last two (CheckFree+). `first`: the number of the first. At least five ranks.
CAUSEWAY_DECL [[nodiscard]] std::vector<std::vector<std::uint32_t>> swapped_routes(std::uint32_t ranks,
                                                                                   std::uint32_t micro_batches,
                                                                                   std::uint32_t first = 0);

/// What the ranks do in a step on such routes. Stages are thought alike, and each end half as long.
CAUSEWAY_DECL [[nodiscard]] routed_schedule ring_schedule(std::vector<std::vector<std::uint32_t>> routes);

/// Forwards only, those with the lowest sum of micro-batch and place first. `peers`: how many there are.
CAUSEWAY_DECL [[nodiscard]] routed_schedule routed_forwards(std::vector<std::vector<std::uint32_t>> routes,
                                                            std::size_t peers);

/// The most sets of activations that a peer holds at one time if it follows its order.
CAUSEWAY_DECL [[nodiscard]] std::int64_t peak_activations(const routed_schedule& s, std::size_t peer);

/// Whether a routed schedule can be run: every micro-batch goes forward once and backward once (whole or in halves) through
/// the peer of its route in each stage, no peers wait for each other in a circle, and none holds more sets of activations
/// than `bound` says for it; without bounds it may hold any number. Reads nothing that it has not checked.
CAUSEWAY_DECL [[nodiscard]] result<void> check(const routed_schedule& s, std::span<const std::int64_t> bound = {});

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/routed_schedule.ipp>
#endif

#endif  // CAUSEWAY_PLAN_ROUTED_SCHEDULE_HPP
