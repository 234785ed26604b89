// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PARALLEL_ELASTIC_CLOCK_OF_REPLICAS_HPP
#define CAUSEWAY_TESTS_PARALLEL_ELASTIC_CLOCK_OF_REPLICAS_HPP

// Pipelines whose replicas exchange by the clock, of which one has a slow host.

#include <causeway/axis/every_seconds.hpp>
#include <causeway/axis/outer.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/presets/local_updates.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "parallel/elastic/divided_batches.hpp"
#include "parallel/elastic/local_pipeline_world.hpp"
#include "support/catch.hpp"

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

/// Of a run: the steps of each of two replicas, and after which of them there were exchanges.
struct made_steps {
  std::set<std::uint64_t> of[2];
  std::vector<std::uint64_t> records;
};

/// Runs the world. One of the replicas is slower.
template <class World>
made_steps steps_of_run(World& w, const elastic_world_options& o) {
  w.boot();
  w.run();
  CHECK(errors_of(w, o.hosts).empty());
  REQUIRE(w.finished() == o.hosts);
  made_steps all;
  for (std::uint32_t h = 0; h < o.hosts; ++h) {
    causeway::stage::layout::place at;
    REQUIRE(w.at(h).layouts.at(1).find(w.at(h).id, &at) != nullptr);
    std::uint64_t round = 0, before = 0;
    std::set<std::uint64_t> steps;
    std::vector<std::uint64_t> records;
    for (const auto& [step, now] : clock_log::of_peer.at(w.at(h).id)) {
      steps.insert(before);  // its number, from which it may have come to the record of the others
      before = step;
      if (std::exchange(round, now) != now) records.push_back(step);
    }
    if (all.records.empty()) all.records = records;
    CHECK(records == all.records);
    CHECK((all.of[at.replica].empty() || all.of[at.replica] == steps));
    all.of[at.replica] = steps;
  }
  CHECK(all.of[0].size() != all.of[1].size());
  return all;
}

/// The steps of both in a round.
using rounds_of_two = std::array<std::vector<std::uint64_t>, 2>;

inline void each_round(const made_steps& made, const std::function<void(const rounds_of_two&)>& look) {
  std::uint64_t began = 0;
  CHECK(made.records.size() > 2);
  for (const std::uint64_t record : made.records) {
    rounds_of_two steps;
    for (std::size_t m = 0; m < 2; ++m) steps[m] = {made.of[m].lower_bound(began), made.of[m].lower_bound(record)};
    look(steps);
    began = record;
  }
}

/// All steps are of as many samples.
inline float mean_of_steps(const rounds_of_two& steps, float first, float second) {
  const auto a = static_cast<float>(steps[0].size()), b = static_cast<float>(steps[1].size());
  return (a * first + b * second) / (a + b);
}

/// Two pipelines, one of which is slower, as two whole models of which means are taken by hand.
template <class Options>
void comes_to_two_whole_models_by_clock(elastic_world_options o) {
  o.steps = 24;
  local_world<Options> w{o};
  const made_steps made = steps_of_run(w, o);
  whole_models<2> two{o};
  each_round(made, [&](const rounds_of_two& steps) {
    for (std::size_t m = 0; m < 2; ++m) {
      for (const std::uint64_t s : steps[m]) two.step(m, s);
    }
    for (std::size_t i = 0; i < two[0].size(); ++i) {
      two.shared().values()[i] = two[0][i] = two[1][i] = mean_of_steps(steps, two[0][i], two[1][i]);
    }
  });
  CHECK(off(holders_agree(w, o.hosts), two.named(), o.layers) < 1e-4);
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_PARALLEL_ELASTIC_CLOCK_OF_REPLICAS_HPP
