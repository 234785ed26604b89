// SPDX-License-Identifier: Apache-2.0
// Swarms whose peers take local steps, with a hub for each stage.
#include <causeway/core/rng.hpp>
#include <causeway/presets/asynchronous.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "parallel/swarm/local_swarm_cases.hpp"
#include "support/catch.hpp"
#include "support/hub_by_hand.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using support::hub_by_hand;

namespace {

/// A record after the first step, and then after three of eight samples.
struct async_local_sgd {
  [[nodiscard]] static auto policy() {
    return make(presets::async_local_sgd_options{.local_steps = 1, .period = 2, .record_samples = 24});
  }
};
struct decoupled_diloco {
  [[nodiscard]] static auto policy() {
    return make(presets::decoupled_diloco_options{
        .local_steps = 2, .fragments = 2, .overlap_steps = 1, .outer_momentum = 0.5F, .record_samples = 24});
  }
};
/// Two regions, which push to the hub of hubs after every second push.
struct halos {
  [[nodiscard]] static auto policy() {
    return make(presets::halos_options{.regions = {}, .local_steps = 1, .pushes = 2, .record_samples = 24});
  }
};
/// Pushes after every second step, a record after four.
struct every_second {
  static constexpr float rate = 0.7F, momentum = 0.9F;
  [[nodiscard]] static auto policy() {
    return comm::async_parameter_server{
        axis::every{2}, axis::star{.record_samples = 32},
        axis::outer<optim::delayed_nesterov>{rate, optim::delayed_nesterov{{.momentum = momentum, .period = 2}}}};
  }
};
/// The same with two regions, of so many peers each.
template <std::uint32_t Peers>
struct regions_of {
  static constexpr float share = 0.25F;
  [[nodiscard]] static auto policy() {
    return make(presets::halos_options{.regions = {},
                                       .local_steps = 2,
                                       .pushes = Peers,
                                       .region_learning_rate = 0.4F,
                                       .region_momentum = 0.9F,
                                       .region_period = 2,
                                       .global_learning_rate = 0.3F,
                                       .global_momentum = 0.5F,
                                       .global_period = 2,
                                       .global_share = share,
                                       .record_samples = 32});
  }
};

/// The same, whatever the peers' speeds: whoever is quick has more micro-batches of each step.
struct by_speed : every_second {
  [[nodiscard]] static auto policy() {
    return make(presets::async_local_sgd_options{.local_steps = 2, .period = 2, .record_samples = 32});
  }
};

using pushing = support::preset_rounds<every_second>;
using in_four = support::in_turn_of<4>;

/// Pushes come in turn, the hub's first.
support::named_parameters by_hand(const support::swarm_world_options& o, std::size_t hub_is) {
  hub_by_hand hub;
  std::array<std::vector<float>, 2> pulled;
  std::uint32_t since = 0;
  return support::models_by_hand(o, [=](std::uint64_t steps, parameter_store& shared, const auto& models) mutable {
    if (steps == 1) pulled.fill({shared.values().begin(), shared.values().end()});
    const bool record = steps % 4 == 1 || steps == o.steps;
    ++since;
    for (const std::size_t m : {hub_is, 1 - hub_is}) {
      if (since == 2 || record) hub.push(shared.values(), pulled[m], models[m]);
    }
    if (since == 2 || record) since = 0;
    for (std::size_t m = 0; record && m < 2; ++m) hub.pull(shared.values(), pulled[m], models[m]);
  });
}

/// What a region's hub shares, and what the hub of hubs has of that.
struct region_by_hand {
  hub_by_hand hub{0.8F, 0.9F};
  std::vector<float> shared{}, above{};

  void begin(std::span<const float> start) {
    shared.assign(start.begin(), start.end());
    above = shared;
  }
  void up(hub_by_hand& top, std::span<float> all) {
    if (above == shared) return;  // nothing to push
    top.take(all, above, shared);
    above = shared;
  }
  void answer(std::span<const float> all) {
    for (std::size_t i = 0; i < all.size(); ++i) shared[i] += regions_of<1>::share * (all[i] - shared[i]);
    above = shared;
  }
};
hub_by_hand hub_of_hubs() { return hub_by_hand{0.6F, 0.5F}; }

/// Regions push up when both of their peers have, and the hub of hubs answers before the next step. It serves while it
/// waits for a record, too: its own region's push is answered by then, the other one's is under way, and is made again.
/// The models 0 and 2 are one region, and 1 and 3; the first of each is a hub, and 0 that of both.
support::named_parameters regions_come_to(const support::swarm_world_options& o) {
  std::array<region_by_hand, 2> regions;
  std::array<std::vector<float>, 4> pulled;
  hub_by_hand top = hub_of_hubs();
  return support::models_by_hand<in_four>(o, [=](std::uint64_t steps, parameter_store& all, const auto& models) mutable {
    if (steps == 1) {
      pulled.fill({all.values().begin(), all.values().end()});
      for (auto& r : regions) r.begin(all.values());
    }
    const bool record = steps % 4 == 1 || steps == o.steps, due = steps > 1 && steps % 2 == 1;
    for (std::size_t m = 0; (record || due) && m < 4; ++m)
      regions[m % 2].hub.push(regions[m % 2].shared, pulled[m], models[m]);
    for (std::size_t r = 0; due && r < (record ? 1 : 2); ++r) {
      regions[r].up(top, all.values());
      regions[r].answer(all.values());
    }
    if (!record) return;
    for (auto& r : regions) r.up(top, all.values());
    for (auto& r : regions) r.answer(all.values());
    for (std::size_t m = 0; m < 4; ++m) hub_by_hand::pull(regions[m % 2].shared, pulled[m], models[m]);
  });
}

/// Seven steps, records after the first, the fifth and the last, and a push after the third. After that the pair that is no
/// hub is lost. The round is made anew of what the other pair has moved in it, as one push: also by what the lost one had.
support::named_parameters with_one_pair_lost(const support::swarm_world_options& o, std::uint32_t lost) {
  support::whole_model model{o};
  const auto began = model.parameters().values();
  const std::vector<float> none(began.size());
  const std::vector<float> start{began.begin(), began.end()};
  std::vector<float> shared = start, pulled, live;
  // What pushes when it is where `moved` from `from` is, and where that leads.
  const auto push = [&](hub_by_hand& hub, std::vector<float>& of, std::vector<float> from,
                        const std::vector<float>& moved) {
    live = from;
    for (std::size_t i = 0; i < live.size(); ++i) live[i] -= moved[i];
    hub.push(of, from, live);
  };
  const auto add = [](std::vector<float> a, const std::vector<float>& b) {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
    return a;
  };
  hub_by_hand hub;
  std::array<std::vector<float>, 2> moved{none, none};  // the hub's pair, and the other one
  for (std::size_t m = 0; m < 2; ++m) model.add({0}, m == 0 ? 1 - lost : lost, 2, moved[m]);
  for (std::size_t m = 0; m < 2; ++m) push(hub, shared, start, moved[m]);
  const std::vector<float> record = shared;
  const hub_by_hand at_record = hub;

  moved = {none, none};
  for (const std::uint64_t step : {1U, 2U}) {
    for (std::size_t m = 0; m < 2; ++m) {
      model.begin_at(record, moved[m]);
      model.add({step}, m == 0 ? 1 - lost : lost, 2, moved[m]);
    }
  }
  push(hub, shared, record, moved[0]);
  pulled = shared;
  push(hub, shared, record, moved[1]);
  std::vector<float> more = none;
  for (const std::uint64_t step : {3U, 4U}) {
    model.begin_at(pulled, more);
    model.add({step}, 0, 1, more);
  }
  push(hub, shared, pulled, more);
  model.begin_at(shared, none);
  more = add(more, moved[0]);
  model.add({1, 2}, lost, 2, more);  // what is missing

  hub = at_record;
  shared = record;
  push(hub, shared, record, more);
  more = none;
  const std::vector<float> second = shared;
  for (const std::uint64_t step : {5U, 6U}) {
    model.begin_at(second, more);
    model.add({step}, 0, 1, more);
  }
  push(hub, shared, second, more);
  model.begin_at(shared, none);
  return support::parameters_of(model.parameters());
}

/// The same where each pair is a region, and the lost one is not that of the hub of hubs: its push is in what that has
/// shared since, and in the answer to the other region. The record begins without it, at both levels.
support::named_parameters with_one_region_lost(const support::swarm_world_options& o, std::uint32_t lost) {
  support::whole_model model{o};
  const auto began = model.parameters().values();
  const std::vector<float> none(began.size());
  const std::vector<float> start{began.begin(), began.end()};
  std::vector<float> all = start, live;
  region_by_hand own, other;
  hub_by_hand top = hub_of_hubs();
  const auto push = [&](region_by_hand& region, const std::vector<float>& from, const std::vector<float>& moved) {
    live = from;
    for (std::size_t i = 0; i < live.size(); ++i) live[i] -= moved[i];
    region.hub.take(region.shared, from, live);
  };
  const auto train = [&](const std::vector<std::uint64_t>& steps, std::uint32_t first, std::uint32_t each) {
    const std::vector<float> from = own.shared;
    std::vector<float> moved = none;
    for (const std::uint64_t step : steps) {
      model.begin_at(from, moved);
      model.add({step}, first, each, moved);
    }
    push(own, from, moved);
    return moved;
  };
  own.begin(start), other.begin(start);
  std::vector<float> moved = none;
  model.add({0}, lost, 2, moved);
  push(other, start, moved);
  moved = train({0}, 1 - lost, 2);
  own.up(top, all), other.up(top, all), own.answer(all);
  const auto record = std::tuple{own, top, all};

  moved = train({1, 2}, 1 - lost, 2);
  const std::vector<float> pulled = own.shared;
  own.up(top, all), own.answer(all);
  std::vector<float> more = none;
  for (const std::uint64_t step : {3U, 4U}) {
    model.begin_at(pulled, more);
    model.add({step}, 0, 1, more);
  }
  push(own, pulled, more);
  model.begin_at(own.shared, none);
  for (std::size_t i = 0; i < more.size(); ++i) more[i] += moved[i];
  model.add({1, 2}, lost, 2, more);  // what is missing

  std::tie(own, top, all) = record;
  push(own, std::vector<float>{own.shared}, more);
  own.up(top, all), own.answer(all);
  train({5, 6}, 0, 1);
  own.up(top, all);
  model.begin_at(all, none);
  return support::parameters_of(model.parameters());
}

}  // namespace

TEST_CASE("local swarm: hubs of stages come to what a hub of whole models comes to", "[parallel][fast]") {
  auto o = support::two_pairs();
  o.local_steps = 4;
  for (const std::uint64_t steps : {5U, 12U}) {
    o.steps = steps;
    const auto hand = by_hand(o, support::place_in_stage(o, 0));
    CHECK(support::off_by_hand<pushing>(o, hand) < 1e-4);
    CHECK(support::off_by_hand<support::preset_rounds<by_speed>>(o, hand) < 1e-4);
  }
}

// Whoever founds a stage, and so comes first in its records, has the lowest id, and comes first in routes.
TEST_CASE("local swarm: hubs of hubs of stages come to what those of whole models come to", "[parallel][fast]") {
  auto o = support::two_pairs();
  o.speeds = {{1, 1, 1, 1}, {1, 1, 1, 1}};
  o.seed = 17;
  for (const std::uint64_t steps : {5U, 12U}) {
    o.steps = steps;
    CHECK(support::off_by_hand<support::preset_rounds<regions_of<2>>, in_four>(o, regions_come_to(o)) < 1e-4);
  }
}

TEST_CASE("local swarm: a hub's round without a lost peer's pushes has its micro-batches once", "[parallel][fast]") {
  auto o = support::two_pairs();
  o.local_steps = 4, o.steps = 7;
  support::loses_one_pair<pushing>(o, with_one_pair_lost);
  support::loses_one_pair<support::preset_rounds<regions_of<1>>>(o, with_one_region_lost);
}

// Where one of three is lost a third of the pushes is, and those of the round before it are one: with a momentum of 0.9 for
// every second push that is 0.55 of the way.
TEST_CASE("local swarm: hubs of stages go on whoever is lost, and let others in", "[parallel][local_swarm]") {
  using rounds = support::preset_rounds<async_local_sgd>;
  support::trains_through_losses<rounds>(0.6, support::two_stages(), 61);
  support::lets_newcomers_in<rounds>(8);
  support::goes_on_from_checkpoints<rounds>(0.6);
}

TEST_CASE("local swarm: and so they do with fragments and results some steps late", "[parallel][local_swarm]") {
  using rounds = support::preset_rounds<decoupled_diloco>;
  support::trains_through_losses<rounds>(1.0 / 3, support::two_stages(), 61);
  support::lets_newcomers_in<rounds>(8);
  support::goes_on_from_checkpoints<rounds>(1.0 / 3);
}

TEST_CASE("local swarm: hubs of hubs go on whoever is lost, and let others in", "[parallel][local_swarm]") {
  using rounds = support::preset_rounds<halos>;
  support::trains_through_losses<rounds>(0.6, support::two_stages(), 29);
  support::lets_newcomers_in<rounds>(8);
  support::goes_on_from_checkpoints<rounds>(0.6);
}

TEST_CASE("local swarm: hubs of hubs go on at every single network call", "[parallel][local_swarm][slow][every_call]") {
  auto o = support::two_stages();
  o.steps = 5;
  support::trains_through_losses<support::preset_rounds<halos>>(0.6, o, 1);
}

TEST_CASE("local swarm: and at every single network call", "[parallel][local_swarm][slow][every_call]") {
  support::trains_through_losses<support::preset_rounds<async_local_sgd>>(0.6, support::two_stages(), 5);
}
