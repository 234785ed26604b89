// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PARALLEL_ELASTIC_NEWCOMERS_HPP
#define CAUSEWAY_TESTS_PARALLEL_ELASTIC_NEWCOMERS_HPP

// Pipelines whose peers come in the middle of a run.

#include <cstdint>
#include <functional>
#include <utility>

#include "parallel/elastic/local_pipeline_world.hpp"
#include "support/catch.hpp"

namespace support {

/// The last peer comes before each of the first `before` steps; the others are pipelines without it. `at_end(world,
/// options)` says what else holds then.
template <class World, class AtEnd>
void last_comes_in_each_step(const elastic_world_options& with, std::uint64_t before, AtEnd at_end) {
  const std::uint32_t last = with.hosts - 1;
  for (std::uint64_t at = 1; at <= before; ++at) {
    INFO("it comes before step " << at);
    auto o = with;
    o.late = {last};
    std::function<void()> come;
    o.before_step = [&](std::uint32_t, std::uint64_t step) {
      if (step == at && come) std::exchange(come, nullptr)();
    };
    World w{o};
    come = [&] { w.boot(last); };
    w.boot();
    w.run();
    CHECK(errors_of(w, o.hosts).empty());
    CHECK(w.finished() == o.hosts);
    holders_agree(w, o.hosts);
    CHECK(w.at(last).received > 0);
    at_end(w, o);
  }
}
/// Where three are a pipeline and a spare one.
template <class World, class AtEnd>
void newcomer_in_each_step(std::uint64_t before, std::uint64_t steps, AtEnd at_end) {
  auto o = two_pipelines();
  o.steps = steps;
  last_comes_in_each_step<World>(o, before, at_end);
}

/// With it there are two pipelines.
inline void make_two_pipelines(any_elastic_world& w, const elastic_world_options& o) {
  CHECK(w.at(0).layouts.at(1).replicas.size() == 1);
  CHECK(w.at(0).layouts.at(o.steps).replicas.size() == 2);
}

template <class Options>
void lets_newcomers_in(std::uint64_t steps = 15) {
  newcomer_in_each_step<local_world<Options>>(8, steps, make_two_pipelines);
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_PARALLEL_ELASTIC_NEWCOMERS_HPP
