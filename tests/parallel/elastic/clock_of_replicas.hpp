// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PARALLEL_ELASTIC_CLOCK_OF_REPLICAS_HPP
#define CAUSEWAY_TESTS_PARALLEL_ELASTIC_CLOCK_OF_REPLICAS_HPP

// Pipelines whose replicas exchange by the clock, of which one has a slow host.

#include <causeway/axis/every_seconds.hpp>
#include <causeway/axis/outer.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/presets/local_updates.hpp>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "parallel/elastic/divided_batches.hpp"
#include "parallel/elastic/local_pipeline_world.hpp"

namespace support {

/// What all trainers of a run were at after each step, by their identity: steps, and rounds.
struct clock_log {
  static inline std::map<std::uint64_t, std::vector<std::pair<std::uint64_t, std::uint64_t>>> of_peer{};
  static void stepped(auto& trainer) {
    const auto& ctx = trainer.context();
    of_peer[ctx.identity()].emplace_back(ctx.step(), ctx.round());
  }
};

/// Stages compute for 40 ms a micro-batch, of which a replica has two; the slow host, where there is one, for longer.
template <class Order = causeway::stage::one_f_one_b, bool HasSlowHost = true>
struct paced : clock_log {
  static auto pipelines(causeway::parallel::local_pipeline_options po) {
    using causeway::stage::recovery::regroup;
    return causeway::parallel::local_pipeline<regroup, Order, slow_boundary>{std::move(po), regroup{2}};
  }
  static void met(causeway::sim::world& world) {
    of_peer.clear();
    slow_boundary::world = &world;
    if (HasSlowHost) world.set_speed(slow_boundary::slow, 0.4);
  }
};

/// A mean by samples of what moved since the last exchange, when T milliseconds have passed and so many steps are made.
template <std::int64_t T, std::uint64_t Fewest, class Paced = paced<>>
struct mean_by_clock : Paced {
  [[nodiscard]] static auto policy() {
    using namespace causeway;
    return comm::rounds{axis::every_seconds{{.seconds = static_cast<double>(T) / 1000, .fewest_steps = Fewest}},
                        axis::outer<optim::sgd>{1.0F}, axis::split_mean<>{}};
  }
};
template <class Paced = paced<>>
struct a_edit : Paced {
  [[nodiscard]] static auto policy() {
    return make(causeway::presets::a_edit_options{.seconds = 0.45, .fewest_steps = 4, .warm_up = 2, .threshold = 1});
  }
};

}  // namespace support

#endif  // CAUSEWAY_TESTS_PARALLEL_ELASTIC_CLOCK_OF_REPLICAS_HPP
