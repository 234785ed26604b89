// SPDX-License-Identifier: Apache-2.0
// Swarms whose peers take local steps, and exchange them in groups, other ones each time.
#include <causeway/axis/merge_rule.hpp>
#include <causeway/presets/gossip.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "parallel/swarm/local_swarm_cases.hpp"
#include "support/catch.hpp"
#include "support/groups_by_hand.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

/// A run that ends with a round, and is not told that it ends: peers keep what they came to in their groups.
support::swarm_world_options four_pairs() {
  auto o = support::two_pairs();
  o.speeds = {{1, 1, 1, 1}, {1, 1, 1, 1}};
  o.local_steps = 3;
  o.tells_steps = false;
  o.seed = 17;  // whoever founds a stage, and so comes first in its exchanges, has the lowest id, and comes first in routes
  return o;
}
using four_models = std::array<support::named_parameters, support::replicas>;
using in_four = support::in_turn_of<support::replicas>;

template <class Exchange>
four_models by_hand(const support::swarm_world_options& o, Exchange exchange) {
  four_models all;
  (void)support::models_by_hand<in_four>(o, [&](std::uint64_t steps, parameter_store& shared, const auto& models) {
    if (steps % o.local_steps == 0) exchange.exchange(shared, models);
    if (steps != o.steps) return;
    for (std::size_t m = 0; m < support::replicas; ++m) {
      std::copy(models[m].begin(), models[m].end(), shared.values().begin());
      all[m] = support::parameters_of(shared);
    }
  });
  return all;
}

/// How far the peers of a stage are off these models, each off its own. Peers have their numbers in the order of their ids.
double off(const std::vector<support::named_parameters>& peers, const four_models& models,
           const support::named_parameters& began) {
  std::array<std::size_t, support::replicas> order{0, 1, 2, 3};
  double least = HUGE_VAL;
  do {
    double worst = 0;
    for (std::size_t m = 0; m < models.size(); ++m)
      worst = std::max(worst, support::off(models[order[m]], peers[m], began));
    least = std::min(least, worst);
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

template <class Options>
double off_by_hand(const support::swarm_world_options& o, const four_models& models) {
  support::local_swarm_of<support::preset_rounds<Options>, support::in_pairs<in_four>> swarm{o};
  swarm.boot();
  swarm.run(2min);
  const auto began = support::beginning(o.blocks_per_stage * 2);
  double worst = 0;
  for (std::uint32_t stage = 0; stage < 2; ++stage) {
    std::vector<support::named_parameters> peers;
    for (std::uint32_t h = swarm.first(stage); h < swarm.first(stage) + 4; ++h) {
      REQUIRE(swarm.at(h).finished);
      peers.push_back(swarm.at(h).parameters);
    }
    worst = std::max(worst, off(peers, models, began));
  }
  return worst;
}

}  // namespace

TEST_CASE("local swarm: peers of a stage that meet in groups do what whole models do", "[parallel][fast]") {
  auto o = four_pairs();
  o.steps = GENERATE(3U, 6U, 9U);
  const bool all_alike = o.steps == 6;  // the second exchange of a grid of two by two makes the mean of all
  CHECK(off_by_hand<support::moshpit>(o, by_hand(o, support::means_by_hand{})) < 1e-4);
  CHECK((all_alike || off_by_hand<support::moshpit>(o, by_hand(o, support::means_by_hand{.together = true})) > 1e-3));
  CHECK(off_by_hand<support::gossip_in_pairs>(o, by_hand(o, support::gossip_by_hand{})) < 1e-4);
  CHECK(off_by_hand<support::gossip_in_pairs>(o, by_hand(o, support::gossip_by_hand{.together = true})) > 1e-3);
  o.blocks_per_stage = support::segments;
  CHECK(off_by_hand<support::gossip_in_segments>(o, by_hand(o, support::segments_by_hand{})) < 1e-4);
  CHECK(off_by_hand<support::gossip_in_segments>(o, by_hand(o, support::means_by_hand{.together = true})) > 1e-3);
}

namespace {

/// A stage has two tensors.
struct bacombo : presets::bacombo_options {
  bacombo() { segments = 2; }
};

}  // namespace

TEMPLATE_TEST_CASE("local swarm: who comes to groups computes nothing before it has met somebody", "[parallel][fast]",
                   support::moshpit, presets::noloco_options, bacombo) {
  using rounds = support::preset_rounds<TestType>;
  auto o = support::two_stages();
  o.speeds = {{1, 1, 1, 1}, {1, 1, 1, 1}};
  o.steps = 24, o.local_steps = 6, o.late = {7};
  std::size_t first = 0;  // steps that others had made when it computed first
  std::function<std::size_t()> steps;
  o.spoils = [&](std::uint32_t host, std::uint64_t) {
    if (host == 7 && first == 0) first = steps();
    return false;
  };
  support::local_swarm_of<rounds> swarm{o};
  steps = [&] { return swarm.at(4).ends.size(); };
  swarm.boot();
  while (steps() < 12) swarm.world().run_until(time_point{swarm.world().now().since_start + 10ms});
  swarm.boot(7);
  swarm.run(5min);
  CHECK(swarm.finished() == 8);
  CHECK(first >= 18);
  CHECK(first < 24);
}

TEMPLATE_TEST_CASE("local swarm: peers in groups go on whoever is lost, and let others in", "[parallel][local_swarm]",
                   support::moshpit, presets::noloco_options, bacombo) {
  using rounds = support::preset_rounds<TestType>;
  support::trains_through_losses<rounds>(2.0 / 9);
  support::lets_newcomers_in<rounds>();
  support::goes_on_from_checkpoints<rounds>(2.0 / 9);
}

namespace {

struct means_a_step_later {
  std::uint32_t local_steps = 3;
  [[nodiscard]] auto policy() const {
    return comm::rounds{axis::every{local_steps}, axis::grid{2, 2}, axis::parameters{}, axis::split_mean<>{},
                        axis::replayed{1}};
  }
};
struct gossip_a_step_later {
  std::uint32_t local_steps = 3;
  [[nodiscard]] auto policy() const {
    return comm::rounds{axis::every{local_steps},
                        axis::random_groups{2},
                        axis::pseudo_gradient_and_anchor{},
                        axis::gather_mean<>{},
                        axis::gossip_nesterov{presets::noloco_options{}.outer},
                        axis::replayed{1}};
  }
};

}  // namespace

TEMPLATE_TEST_CASE("local swarm: rows of groups that are set aside go on whoever is lost, and let others in",
                   "[parallel][local_swarm]", means_a_step_later, gossip_a_step_later) {
  using rounds = support::preset_rounds<TestType>;
  auto o = support::two_stages();
  o.most_local_steps = 6;
  support::trains_through_losses<rounds>(2.0 / 9, o);
  support::lets_newcomers_in<rounds>(12, o);
  support::goes_on_from_checkpoints<rounds>(2.0 / 9, o);
}

TEMPLATE_TEST_CASE("local swarm: peers in groups, and whoever is lost at every single network call",
                   "[parallel][local_swarm][slow][every_call]", support::moshpit, presets::noloco_options, bacombo) {
  support::trains_through_losses<support::preset_rounds<TestType>>(2.0 / 9, support::two_stages(), 1);
}
