// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PARALLEL_ELASTIC_DIVIDED_BATCHES_HPP
#define CAUSEWAY_TESTS_PARALLEL_ELASTIC_DIVIDED_BATCHES_HPP

// Pipelines of which one has a slow host, so that batches which follow speed are divided unequally.

#include <causeway/parallel/local_async_pipeline.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "parallel/elastic/local_pipeline_world.hpp"

namespace support {

/// Every stage of two computes for a while for each micro-batch, one host for twice as long.
class slow_boundary : public causeway::stage::plain {
 public:
  static inline causeway::sim::world* world = nullptr;
  static constexpr std::uint32_t slow = 3;

  slow_boundary() : causeway::stage::plain{} {}

  causeway::result<std::size_t> encode(causeway::thread_pool& pool, const causeway::stage::crossing& c,
                                       std::span<const float> values, std::span<std::byte> room) {
    world->running()->compute(std::chrono::milliseconds{40});
    return causeway::stage::plain::encode(pool, c, values, room);
  }
};

/// Twelve micro-batches, and a host of half the speed; or four, of which one of an eighth of it has one.
template <std::uint32_t Parts = 12, class Order = causeway::stage::one_f_one_b>
struct divided_batches {
  static auto pipelines(causeway::parallel::local_pipeline_options po) {
    using causeway::stage::recovery::regroup;
    return causeway::parallel::local_pipeline<regroup, Order, slow_boundary>{std::move(po), regroup{2}};
  }
  static void met(causeway::sim::world& world) {
    slow_boundary::world = &world;
    world.set_speed(slow_boundary::slow, Parts == 12 ? 0.5 : 0.125);
  }
};

inline elastic_world_options twelve_parts(std::uint64_t steps = 9) {
  auto o = two_pipelines();
  o.micro_batches = 12;
  o.steps = steps;
  o.link.latency = std::chrono::microseconds{500};  // next to nothing of a step
  return o;
}

/// Of each slot, in the round that this step is in.
inline std::vector<std::uint32_t> shares_after(any_elastic_world& w, std::uint64_t step) {
  std::vector<std::uint32_t> all;
  for (const causeway::stage::replica& r : w.at(0).layouts.at(step).replicas) all.push_back(r.micro_batches);
  return all;
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_PARALLEL_ELASTIC_DIVIDED_BATCHES_HPP
