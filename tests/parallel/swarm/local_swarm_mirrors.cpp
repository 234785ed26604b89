// SPDX-License-Identifier: Apache-2.0
// Swarms whose peers tell those of their stage what they change, from one record to the next.
#include <causeway/presets/compressed.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "parallel/swarm/local_swarm_cases.hpp"
#include "support/catch.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

/// A record after the first step, and then after every three of eight samples.
presets::gaia_asp_options every_three_steps(float threshold, std::uint32_t most_ahead) {
  return {.threshold = threshold, .most_ahead = most_ahead, .record_samples = 24};
}
struct mirrored {
  [[nodiscard]] static auto policy() { return make(every_three_steps(0.01F, 2)); }
};
/// All of each step is told, and nobody goes on without it.
struct in_step {
  [[nodiscard]] static auto policy() { return make(every_three_steps(1e-9F, 1)); }
};
/// A hub would mix what a lost peer told with others' changes.
struct grouped {
  [[nodiscard]] static auto policy() { return make(presets::gaia_asp_options{.label = {.own = 1}, .record_samples = 24}); }
};
using telling = support::preset_rounds<mirrored>;
using telling_all = support::preset_rounds<in_step>;

/// What both have moved in each step counts.
support::named_parameters by_hand(const support::swarm_world_options& o) {
  return support::models_by_hand(o, [](std::uint64_t, parameter_store& shared, const auto& models) {
    const auto values = shared.values();
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = models[0][i] + models[1][i] - values[i];
      models[0][i] = models[1][i] = values[i];
    }
  });
}

/// Six steps, a record after the first, the fourth and the last. The pair of micro-batches `lost`, `lost` + 2, ... is lost
/// after the third. The fourth step is made where both have come to; what the lost ones had is computed there, too.
support::named_parameters with_one_pair_lost(const support::swarm_world_options& o, std::uint32_t lost) {
  support::whole_model model{o};
  const auto began = model.parameters().values();
  std::vector<float> record{began.begin(), began.end()}, own(record.size()), told(record.size());
  const auto end_round = [&] {
    for (std::size_t i = 0; i < record.size(); ++i) record[i] -= own[i];
    std::fill(own.begin(), own.end(), 0.0F);
    std::fill(told.begin(), told.end(), 0.0F);
    model.begin_at(record, own);
  };
  const auto move = [&] {
    std::vector<float> both = own;
    for (std::size_t i = 0; i < both.size(); ++i) both[i] += told[i];
    model.begin_at(record, both);
  };
  for (std::uint64_t step = 0; step < 3; ++step) {
    model.add({step}, 1 - lost, 2, own);
    model.add({step}, lost, 2, step == 0 ? own : told);
    if (step == 0) end_round();
    move();
  }
  model.add({3}, 0, 1, own);
  move();
  model.add({1, 2}, lost, 2, own);
  end_round();
  for (const std::uint64_t step : {4U, 5U}) {
    model.add({step}, 0, 1, own);
    move();
  }
  return support::parameters_of(model.parameters());
}

}  // namespace

TEST_CASE("local swarm: groups of mirrors are refused", "[parallel][local_swarm][fast]") {
  support::local_swarm_of<support::preset_rounds<grouped>> swarm{support::two_stages()};
  swarm.boot();
  swarm.run(10s);
  CHECK(swarm.at(0).error.find("what a lost peer told is taken back, which a hub has mixed") != std::string::npos);
}

TEST_CASE("local swarm: pairs of peers that tell each other all of each step make the sum of two whole models",
          "[parallel][fast]") {
  auto o = support::two_pairs();
  for (const std::uint64_t steps : {6U, 13U}) {
    o.steps = steps;
    CHECK(support::off_by_hand<telling_all>(o, by_hand(o)) < 1e-4);
  }
}

TEST_CASE("local swarm: a record has what lost peers told no more, and their micro-batches once", "[parallel][fast]") {
  auto o = support::two_pairs();
  o.steps = 6;
  support::loses_one_pair<telling_all>(o, with_one_pair_lost);
}

TEST_CASE("local swarm: peers that tell each other what they change go on whoever is lost, and let others in",
          "[parallel][local_swarm]") {
  support::trains_through_losses<telling>(1.0 / 3, support::two_stages(), 29);
  support::lets_newcomers_in<telling>();
  support::goes_on_from_checkpoints<telling>(1.0 / 3);
}

TEST_CASE("local swarm: and they do at every single network call", "[parallel][local_swarm][slow][every_call]") {
  support::trains_through_losses<telling>(1.0 / 3, support::two_stages(), 1);
  support::trains_through_losses<telling_all>(1.0 / 3, support::two_stages(), 5);
}
