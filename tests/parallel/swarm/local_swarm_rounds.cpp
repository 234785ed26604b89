// SPDX-License-Identifier: Apache-2.0
// Swarms whose peers take local steps, with every policy of rounds that goes with them.
#include <causeway/optim/adamw.hpp>
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
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "parallel/swarm/local_swarm_cases.hpp"
#include "support/catch.hpp"
#include "support/local_seat.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using support::goes_on_from_checkpoints, support::lets_newcomers_in, support::trains_through_losses;
using support::local_seat_of, support::local_swarm_of, support::preset_rounds;
using support::nobody, support::stages_agree;

namespace {

struct sparta : presets::sparta_options {
  sparta() { share = 0.5; }
};
struct des_loc : presets::des_loc_options {
  des_loc() : presets::des_loc_options{3, 6, 9} {}
};
/// The same outer optimizer as support::nesterov_rounds.
struct diloco_rounds {
  static constexpr bool has_moments = false;
  static auto make(const support::swarm_schedule& s) {
    return presets::make(presets::diloco_options{s.local_steps, s.outer_rate, s.momentum});
  }
};

}  // namespace

TEST_CASE("local swarm: DiLoCo as rounds is comm::periodic, bit for bit", "[parallel][fast]") {
  auto o = support::two_stages();
  o.outer_rate = 0.7F, o.momentum = 0.9F;
  support::swarm_world<stage::routing::least_load, support::timed_job, stage::plain, support::local_steps<optim::sgd>>
      periodic{o};
  local_swarm_of<diloco_rounds> rounds{o};
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

TEMPLATE_TEST_CASE("local swarm: rounds of every kind go on whoever is lost, and let others in", "[parallel][local_swarm]",
                   presets::diloco_options, presets::open_diloco_options, presets::intellect1_options,
                   presets::muloco_options, presets::local_sgd_options, presets::fedavg_options, presets::photon_options,
                   presets::sparse_loco_options) {
  trains_through_losses<preset_rounds<TestType>>(2.0 / 9);
  lets_newcomers_in<preset_rounds<TestType>>();
}

TEST_CASE("local swarm: rows that are added up go on whoever is lost, with what was not sent where it is",
          "[parallel][local_swarm]") {
  using rounds = preset_rounds<presets::gaia_options>;
  trains_through_losses<rounds>(1.0 / 3);  // two of three peers move the parameters two thirds as far
  lets_newcomers_in<rounds>();
  goes_on_from_checkpoints<rounds>(1e-6);  // after every step there is an exchange
}

namespace {

struct regions : presets::ravnest_options {
  regions() { clusters.clear(); }
};

}  // namespace

TEST_CASE("local swarm: the peers of a stage meet in regions, of those who are there", "[parallel][local_swarm]") {
  trains_through_losses<preset_rounds<regions>>(2.0 / 9);
  lets_newcomers_in<preset_rounds<regions>>();
  goes_on_from_checkpoints<preset_rounds<regions>>(2.0 / 9);
}

namespace {

/// A mask of all parameters, or moments that are averaged with them.
struct all_of_sparta : presets::sparta_options {
  all_of_sparta() { share = 1; }
};
struct all_of_des_loc : presets::des_loc_options {
  all_of_des_loc() : presets::des_loc_options{3, 3, 3} {}
};

/// The gradient of each micro-batch of the first round's steps alone, at the initial parameters.
std::vector<std::vector<float>> first_gradients(const support::swarm_world_options& o) {
  const support::timed_job job{o.blocks_per_stage * static_cast<std::int64_t>(o.speeds.size())};
  auto model = job.make(nn::model_part{});
  const auto g = model.parameters().gradients();
  std::vector<std::vector<float>> all;
  for (std::uint64_t step = 0; step < o.local_steps; ++step) {
    const auto b = job.batch({.micro_batches = o.micro_batches, .seed = o.seed}, step);
    for (std::int64_t m = 0; m < o.micro_batches; ++m) {
      std::fill(g.begin(), g.end(), 0.0F);
      const batch piece = b.view().slice(m, 1);
      (void)model.forward_backward(piece.inputs, piece.targets, 1, 1.0F / static_cast<float>(piece.tokens()), 0).value();
      all.emplace_back(g.begin(), g.end());
    }
  }
  return all;
}

/// What one peer has after steps on these sets of micro-batches: the parameters and both moments of the whole model.
std::vector<std::vector<float>> moved_by(const std::vector<support::batch_set>& after, const support::batch_set& at_last,
                                         const std::vector<std::vector<float>>& gradients,
                                         const support::swarm_world_options& o) {
  const support::timed_job job{o.blocks_per_stage * static_cast<std::int64_t>(o.speeds.size())};
  auto model = job.make(nn::model_part{});
  optim::adamw inner;
  thread_pool pool{1};
  inner.reset(model.parameters().length());
  std::vector<support::batch_set> steps = after;
  steps.push_back(at_last);  // what was missing
  support::batch_set before{at_last.size()};
  for (const support::batch_set& now : steps) {
    const auto g = model.parameters().gradients();
    std::fill(g.begin(), g.end(), 0.0F);
    const auto n = static_cast<float>(now.count() - before.count());
    for (std::uint32_t m = 0; m < now.size(); ++m) {
      if (!now.has(m) || before.has(m)) continue;
      for (std::size_t i = 0; i < g.size(); ++i) g[i] += gradients[m][i] / n;
    }
    if (n > 0) inner.step(pool, model.parameters().view(), {.learning_rate = o.rate});
    before = now;
  }
  const auto values = model.parameters().values();
  std::vector<std::vector<float>> all{{values.begin(), values.end()}};
  for (const auto moment : inner.moments()) all.emplace_back(moment.begin(), moment.end());
  return all;
}

}  // namespace

TEST_CASE("local swarm: a mask of all parameters in every step is the unsplit model's steps", "[parallel][fast]") {
  auto o = support::two_stages();
  o.local_steps = 1;
  local_swarm_of<preset_rounds<all_of_sparta>> swarm{o};
  swarm.boot();
  swarm.run(2min);
  support::all_like_unsplit(swarm);
}

TEST_CASE("local swarm: parameters and moments are the means over all micro-batches, also those of a lost peer",
          "[parallel][fast]") {
  auto o = support::two_stages();
  o.steps = 3, o.rate = 1e-4F, o.tells_steps = false;
  const auto gradients = first_gradients(o);
  for (std::uint64_t n = 0; n < 300; n += n == 0 ? 90 : 31) {  // 0: nobody is killed
    INFO("killed at its network call " << n);
    o.victim = n == 0 ? nobody : 1, o.dies_at = n, o.back_after = 1500ms;
    using rounds = preset_rounds<all_of_des_loc>;
    support::round_notes notes;
    local_seat_of<rounds>::notes = &notes;
    local_swarm_of<rounds> swarm{o};
    swarm.boot();
    swarm.run(2min);
    local_seat_of<rounds>::notes = nullptr;
    stages_agree(swarm);
    for (std::uint32_t stage = 0; stage < 2; ++stage) {
      std::vector<std::vector<double>> mean(3, std::vector<double>(gradients[0].size(), 0.0));
      std::uint32_t counted = 0;
      for (const support::batch_set& done : notes.put_in.at(stage)) {
        const auto who = std::find_if(notes.peers.begin(), notes.peers.end(),
                                      [&](const auto& p) { return p.stage == stage && p.offered == done; });
        REQUIRE(who != notes.peers.end());
        const auto moved = moved_by(who->after, done, gradients, o);
        const double share = done.count() / static_cast<double>(gradients.size());
        counted += done.count();
        for (std::size_t t = 0; t < 3; ++t) {
          for (std::size_t i = 0; i < mean[t].size(); ++i) mean[t][i] += share * moved[t][i];
        }
      }
      REQUIRE(counted == gradients.size());
      const auto& host = swarm.at(3 * stage);
      const std::size_t half = mean[0].size() / 2;
      for (std::size_t t = 1; t < 3; ++t) {
        REQUIRE(host.moments[t - 1].size() == half);
        for (std::size_t i = 0; i < half; ++i)
          CHECK(host.moments[t - 1][i] == Approx(mean[t][stage * half + i]).epsilon(1e-2));
      }
    }
  }
}

TEMPLATE_TEST_CASE("local swarm: peers whose values differ between rounds go on whoever is lost, and let others in",
                   "[parallel][local_swarm]", sparta, des_loc) {
  trains_through_losses<preset_rounds<TestType>>(2.0 / 9);
  lets_newcomers_in<preset_rounds<TestType>>();
  // Values begin at their last means again. With a mask of half of them these are a step or two old, of six.
  goes_on_from_checkpoints<preset_rounds<TestType>>(std::is_same_v<TestType, sparta> ? 0.5 : 2.0 / 9);
}

namespace {

struct two_policies : presets::sparta_diloco_options {
  two_policies() { sparta.share = 0.5; }
};
struct all_of_two_policies : presets::sparta_diloco_options {
  all_of_two_policies() { sparta.share = 1; }
};

/// A mean of all parameters after every step, and an outer step of Nesterov after every round and at the end.
support::named_parameters by_two_policies(const support::swarm_world_options& o) {
  std::vector<float> velocity;
  return support::models_by_hand(o, [&](std::uint64_t steps, parameter_store& shared, const auto& models) {
    velocity.resize(shared.values().size(), 0.0F);
    for (std::size_t i = 0; i < velocity.size(); ++i) {
      float& live = models[0][i];
      live = (live + models[1][i]) / 2;
      if (steps % o.local_steps == 0 || steps == o.steps) {
        const float moved = shared.values()[i] - live;
        velocity[i] = 0.9F * velocity[i] + moved;
        shared.values()[i] -= 0.7F * (moved + 0.9F * velocity[i]);
        live = shared.values()[i];
      }
      models[1][i] = live;
    }
  });
}

}  // namespace

TEST_CASE("local swarm: two policies under one record do what they do with whole models", "[parallel][fast]") {
  auto o = support::two_pairs();
  o.local_steps = 3;
  for (const std::uint64_t steps : {5U, 6U, 13U}) {
    o.steps = steps;
    CHECK(support::off_by_hand<preset_rounds<all_of_two_policies>>(o, by_two_policies(o)) < 1e-4);
  }
}

namespace {

/// All of one stage are lost at `point` of the second exchange, after which the others heard nothing of them any more, and
/// come back with their disks.
void goes_on_without_a_word(std::uint32_t stage, std::string_view point) {
  INFO("stage " << stage << " is lost at " << point);
  auto o = support::two_stages();
  o.die_with = {3 * stage + 1, 3 * stage + 2};
  o.back_after = 1500ms;
  const sim::world::host_set lost{3 * stage, 3 * stage + 1, 3 * stage + 2},
      others{3 - 3 * stage, 4 - 3 * stage, 5 - 3 * stage};
  sim::world* world = nullptr;
  int exchanges = 0;
  bool cut = false, died = false;
  o.dies_passing = [&](std::uint32_t host, std::string_view at) {
    if (host != 3 * stage || died) return false;
    exchanges += at == "exchanged" ? 1 : 0;
    if (exchanges == 1 && at == "entered" && !std::exchange(cut, true)) world->partition(lost, others, true);
    died = exchanges == 2 && at == point;
    if (died) world->after(1s, [&] { world->heal(lost, others, true); });
    return died;
  };
  local_swarm_of<diloco_rounds> swarm{o};
  world = &swarm.world();
  swarm.boot();
  swarm.run(2min);
  CHECK(died);
  stages_agree(swarm);
}

}  // namespace

TEST_CASE("local swarm: a stage that is lost whole before others have heard of its exchange tells them from its disk",
          "[parallel][fast]") {
  for (const std::uint32_t stage : {0U, 1U}) {
    for (const char* const point : {"exchanged", "voted", "committed"}) goes_on_without_a_word(stage, point);
  }
}

TEST_CASE("local swarm: two policies go on whoever is lost, and let others in", "[parallel][local_swarm]") {
  trains_through_losses<preset_rounds<two_policies>>(0.3);  // the outer momentum takes a loss along
  lets_newcomers_in<preset_rounds<two_policies>>();
  goes_on_from_checkpoints<preset_rounds<two_policies>>(0.5);
}
