// SPDX-License-Identifier: Apache-2.0
// Swarms whose peers take local steps, with every policy of rounds that goes with them.
#include <causeway/optim/sgd.hpp>
#include <causeway/parallel/local_swarm.hpp>
#include <causeway/policy/traits.hpp>
#include <causeway/presets.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "parallel/swarm/swarm_world.hpp"
#include "support/catch.hpp"
#include "support/local_seat.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using support::nobody, support::stages_agree;

namespace {

/// The preset with its own options, but for the length of a round.
template <class Options>
struct preset_rounds {
  static auto make(const support::swarm_schedule& s) {
    Options o;
    o.local_steps = s.local_steps;
    return presets::make(o);
  }
};
/// The same outer optimizer as support::nesterov_rounds.
struct diloco_rounds {
  static auto make(const support::swarm_schedule& s) {
    return presets::make(presets::diloco_options{s.local_steps, s.outer_rate, s.momentum});
  }
};

template <class Rounds>
using swarm_of = support::swarm_world<stage::routing::least_load, support::timed_job, stage::plain,
                                      support::local_steps<optim::sgd, Rounds>>;

support::swarm_world_options two_stages() {
  return {.speeds = {{1, 1, 1}, {1, 1, 1}}, .steps = 6, .micro_batches = 8, .block_seconds = 0.01, .local_steps = 3};
}

/// How far `is` is from `was`, in parts of how far that is from where the run began.
double off(const support::named_parameters& is, const support::named_parameters& was,
           const support::named_parameters& began) {
  double apart = 0, moved = 0;
  for (const auto& [name, values] : was) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      apart += std::pow(double{is.at(name)[i]} - double{values[i]}, 2);
      moved += std::pow(double{values[i]} - double{began.at(name)[i]}, 2);
    }
  }
  REQUIRE(moved > 0);
  return std::sqrt(apart / moved);
}

/// Nobody is killed; then a peer of either stage is killed all along its network calls, and comes back or does not. What a
/// lost peer had in a round, a third of the micro-batches, is computed again and stepped on once instead of three times
/// (docs/design/swarm.md, L4): that round moves the parameters by up to 2/9 less, and nothing else is lost.
template <class Rounds>
void trains_through_losses(double most) {
  swarm_of<Rounds> quiet{two_stages()};
  quiet.boot();
  quiet.run(2min);
  stages_agree(quiet);
  const auto began = support::parameters_of(*[] {
    static auto model = support::timed_job{4}.make(nn::model_part{});
    return &model.parameters();
  }());
  for (const auto& [victim, back] : {std::pair{1U, duration{0s}}, std::pair{4U, duration{1500ms}}}) {
    for (std::uint64_t n = victim;; n += 7) {
      INFO("host " << victim << " is killed at its network call " << n);
      auto o = two_stages();
      o.victim = victim, o.dies_at = n, o.back_after = back;
      const bool for_good = o.once_committed = back == 0s;
      swarm_of<Rounds> swarm{o};
      if (for_good) swarm.wanted = swarm.hosts() - 1;
      swarm.boot();
      swarm.run(2min);
      if (swarm.at(victim).calls <= n) break;  // it has outlived the run
      stages_agree(swarm, for_good ? victim : nobody);
      for (const std::uint32_t h : {0U, 5U}) CHECK(off(swarm.at(h).parameters, quiet.at(h).parameters, began) < most);
    }
  }
}

/// A peer of the second stage comes in each step of a run of four rounds.
template <class Rounds>
void lets_newcomers_in() {
  for (std::size_t step = 1; step < 10; ++step) {
    INFO("it comes after step " << step);
    auto o = two_stages();
    o.steps = 12, o.late = {5};
    swarm_of<Rounds> swarm{o};
    swarm.boot();
    while (swarm.at(0).ends.size() < step) swarm.world().run_until(time_point{swarm.world().now().since_start + 10ms});
    swarm.boot(5);
    swarm.run(5min);
    stages_agree(swarm);
  }
}

}  // namespace

TEST_CASE("local swarm: DiLoCo as rounds is comm::periodic, bit for bit", "[parallel][fast]") {
  auto o = two_stages();
  o.outer_rate = 0.7F, o.momentum = 0.9F;
  swarm_of<support::nesterov_rounds> periodic{o};
  swarm_of<diloco_rounds> rounds{o};
  periodic.boot();
  rounds.boot();
  periodic.run(2min);
  rounds.run(2min);
  for (std::uint32_t h = 0; h < rounds.hosts(); ++h) {
    REQUIRE(rounds.at(h).finished);
    CHECK(rounds.at(h).parameters == periodic.at(h).parameters);
    CHECK(rounds.at(h).losses == periodic.at(h).losses);
  }
}

TEMPLATE_TEST_CASE("local swarm: rounds of every kind go on whoever is lost, and let others in", "[parallel]",
                   presets::diloco_options, presets::open_diloco_options, presets::intellect1_options,
                   presets::muloco_options, presets::local_sgd_options, presets::fedavg_options, presets::photon_options,
                   presets::sparse_loco_options) {
  trains_through_losses<preset_rounds<TestType>>(2.0 / 9);
  lets_newcomers_in<preset_rounds<TestType>>();
}
