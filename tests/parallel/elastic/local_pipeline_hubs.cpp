// SPDX-License-Identifier: Apache-2.0
// Pipelines whose replicas take steps of their own, with a hub for each stage.
#include <causeway/presets/asynchronous.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "parallel/elastic/hubs_of_stages.hpp"
#include "parallel/elastic/local_pipeline_world.hpp"
#include "support/catch.hpp"
#include "support/hub_by_hand.hpp"

using namespace causeway;
using support::async_local_sgd;
using support::decoupled_diloco;
using support::halos;

namespace {

/// Pushes after every second step, and so many steps of the quickest from record to record.
template <std::uint64_t Steps>
struct in_pairs {
  [[nodiscard]] static auto policy() {
    return comm::async_parameter_server{
        axis::every{2}, axis::star{.record_samples = 4 * Steps},
        axis::outer<optim::delayed_nesterov>{0.7F, optim::delayed_nesterov{{.momentum = 0.9F, .period = 2}}}};
  }
};
struct regions_in_pairs {
  static constexpr float share = 0.25F;
  [[nodiscard]] static auto policy() {
    return make(presets::halos_options{.regions = {},
                                       .local_steps = 2,
                                       .pushes = 2,
                                       .region_learning_rate = 0.4F,
                                       .region_momentum = 0.9F,
                                       .region_period = 2,
                                       .global_learning_rate = 0.3F,
                                       .global_momentum = 0.5F,
                                       .global_period = 2,
                                       .global_share = share,
                                       .record_samples = 16});
  }
};

/// A hub with what it shares.
struct sharing_hub {
  support::hub_by_hand hub;
  std::vector<float> shared{};

  void begin(std::span<const float> from) { shared.assign(from.begin(), from.end()); }
  void push(std::span<const float> pulled, std::span<const float> model) { hub.take(shared, pulled, model); }
};

/// Whole models that push to such hubs.
template <std::size_t Count>
struct clients_by_hand {
  support::whole_models<Count> models;
  std::array<std::vector<float>, Count> pulled{};
  std::array<std::uint64_t, Count> at{};

  void pull(std::size_t m, std::span<const float> shared) {
    pulled[m].assign(shared.begin(), shared.end());
    std::copy(shared.begin(), shared.end(), models[m].begin());
  }
  void push(std::size_t m, std::uint32_t steps, sharing_hub& hub, bool waits = true) {
    for (std::uint32_t s = 0; s < steps; ++s) models.step(m, at[m]++);
    hub.push(pulled[m], models[m]);
    waits ? pull(m, hub.shared) : pulled[m].assign(models[m].begin(), models[m].end());
  }
};

/// The steps that each pipeline of a run made, by its place in the layout.
template <std::size_t Count, class Options>
std::array<std::set<std::uint64_t>, Count> steps_made(support::elastic_world_options o, support::parameters& all) {
  std::map<std::uint32_t, std::set<std::uint64_t>> began;
  o.before_step = [&](std::uint32_t host, std::uint64_t step) { began[host].insert(step); };
  support::local_world<Options> w{o};
  w.boot();
  w.run();
  REQUIRE(w.finished() == o.hosts);
  all = support::holders_agree(w, o.hosts);
  std::array<std::set<std::uint64_t>, Count> made;
  for (std::uint32_t h = 0; h < o.hosts; ++h) {
    stage::layout::place at;
    REQUIRE(w.at(h).layouts.at(1).find(w.at(h).id, &at) != nullptr);
    made[at.replica] = began[h];
  }
  return made;
}

/// A model makes so many steps, and pushes. `waits`: for the answer; else it goes on from what it pushed.
struct turn {
  std::size_t model = 0;
  std::uint32_t steps = 0;
  bool waits = true;
};

/// Two pipelines whose pushes come in this order from one record to the next, which is made after `Steps` of the first.
template <std::uint64_t Steps>
void comes_to_a_hub(const std::vector<turn>& order) {
  auto o = support::two_pipelines();
  o.steps = 2 * Steps;
  support::parameters all;
  const auto made = steps_made<2, in_pairs<Steps>>(o, all);
  CHECK(made[0].size() == o.steps);
  clients_by_hand<2> two{support::whole_models<2>{o}};
  sharing_hub hub{support::hub_by_hand{0.7F, 0.9F}};
  hub.begin(two.models.shared().values());
  for (std::uint64_t record = 0; record < o.steps; record += Steps) {
    for (std::size_t m = 0; m < 2; ++m) two.pull(m, hub.shared);
    two.at.fill(record);
    for (const turn& t : order) two.push(t.model, t.steps, hub, t.waits);
    for (std::size_t m = 0; m < 2; ++m) CHECK(made[m].contains(two.at[m] - 1));
    CHECK((two.at[1] == record + Steps || !made[1].contains(two.at[1])));
  }
  std::copy(hub.shared.begin(), hub.shared.end(), two.models.shared().values().begin());
  CHECK(support::off(all, two.models.named(), o.layers) < 1e-4);
}

/// Regions push to the hub of hubs, and go their own ways.
auto regions_apart() {
  return make(presets::halos_options{.regions = {},
                                     .local_steps = 8,
                                     .region_learning_rate = 1,
                                     .region_momentum = 0,
                                     .region_period = 1,
                                     .global_share = 0,
                                     .record_samples = 12});
}
/// How far a parameter is, at most, from what that region shared at the last record.
template <class Trainer>
float gap_to_region(Trainer& trainer, std::uint32_t region) {
  const auto live = trainer.context().parameters();
  std::vector<float> there(live.size());
  trainer.comm().parameters_of(region, there);
  float most = 0;
  for (std::size_t i = 0; i < live.size(); ++i) most = std::max(most, std::abs(live[i] - there[i]));
  return most;
}

}  // namespace

// The second pipeline waits for answers of the first one's hubs, which are in a step of theirs, and so makes fewer steps
// from record to record. Of six steps the first is at the record before it has answered the second push, which is taken in
// there: the second pipeline waits no longer, and makes one more step from where it was.
TEST_CASE("local pipeline: hubs of stages come to what a hub of whole models comes to", "[parallel][elastic][fast]") {
  comes_to_a_hub<4>({{0, 2}, {1, 2}, {0, 2}, {1, 1}});
  comes_to_a_hub<6>({{0, 2}, {1, 2}, {0, 2}, {0, 2}, {1, 2, false}, {1, 1}});
}

// Four pipelines, of which the first and the third have the hubs of the two regions, and the first that of these.
TEST_CASE("local pipeline: hubs of hubs come to what those of whole models come to", "[parallel][elastic][fast]") {
  auto o = support::two_pipelines();
  o.hosts = 8;
  o.steps = 12;
  support::parameters all;
  const auto made = steps_made<4, regions_in_pairs>(o, all);
  clients_by_hand<4> four{support::whole_models<4>{o}};
  std::array<sharing_hub, 2> regions{{{support::hub_by_hand{0.8F, 0.9F}}, {support::hub_by_hand{0.8F, 0.9F}}}};
  sharing_hub top{support::hub_by_hand{0.6F, 0.5F}};
  top.begin(four.models.shared().values());
  for (sharing_hub& hub : regions) hub.begin(top.shared);
  std::array<std::vector<float>, 2> above;  // what each region had of the hub of hubs, or had pushed to it, last
  const auto up = [&](std::size_t r) {
    top.push(above[r], regions[r].shared);
    above[r] = regions[r].shared;
  };
  const auto answer = [&](std::size_t r) {
    for (std::size_t i = 0; i < top.shared.size(); ++i)
      regions[r].shared[i] += regions_in_pairs::share * (top.shared[i] - regions[r].shared[i]);
    above[r] = regions[r].shared;
  };
  for (std::uint64_t record = 0; record < o.steps; record += 4) {
    four.at.fill(record);
    for (std::size_t m = 0; m < 4; ++m) four.pull(m, regions[m / 2].shared);
    for (std::size_t r = 0; r < 2; ++r) above[r] = regions[r].shared;
    for (const std::size_t m : {0U, 1U, 2U, 3U}) four.push(m, 2, regions[m / 2]);
    up(0);
    answer(0);  // of its own peer, at once
    up(1);      // whose answer does not come before the record
    for (const std::size_t m : {0U, 2U}) four.push(m, 2, regions[m / 2]);
    for (const std::size_t m : {1U, 3U}) four.push(m, 1, regions[m / 2]);
    for (const std::size_t r : {0U, 1U}) up(r);
    for (const std::size_t r : {0U, 1U}) answer(r);
    for (const std::size_t m : {1U, 3U}) CHECK(!made[m].contains(record + 3));
  }
  for (const std::size_t m : {0U, 2U}) CHECK(made[m].size() == o.steps);
  for (const std::size_t m : {1U, 3U}) CHECK(made[m].size() == o.steps * 3 / 4);
  std::copy(top.shared.begin(), top.shared.end(), four.models.shared().values().begin());
  CHECK(support::off(all, four.models.named(), o.layers) < 1e-4);
}

TEMPLATE_TEST_CASE("local pipeline: hubs of stages go on whoever is lost, and let others in", "[parallel][elastic]",
                   async_local_sgd, decoupled_diloco, halos) {
  support::goes_on_whoever_is_killed<TestType>(29, 0.03);
  support::newcomers_push<TestType>();
}

// Regions that never take an answer part ever further. The second of two pipelines is the second region; where there are
// three it is in the first.
TEST_CASE("local pipeline: who comes to another region begins where that is", "[parallel][elastic][fast]") {
  auto o = support::two_pipelines();
  o.hosts = 6;
  o.steps = 36;
  o.late = {4, 5};
  std::function<void()> come;
  o.before_step = [&](std::uint32_t, std::uint64_t step) {
    if (step == 18 && come) std::exchange(come, nullptr)();
  };
  std::array<std::uint32_t, 3> seen{};
  const auto look = [&](auto& trainer) {
    const stage::layout& layout = trainer.parallel().layout();
    stage::layout::place at;
    const bool trains = layout.find(trainer.context().identity(), &at) != nullptr;
    if (!trains || layout.replicas.size() != 3 || trainer.context().step() == o.steps) return;
    ++seen[at.replica];
    const std::uint32_t own = at.replica == 2 ? 1 : 0;
    CHECK(gap_to_region(trainer, own) < 0.04F);  // of two steps
    CHECK(gap_to_region(trainer, 1 - own) > 0.08F);
  };
  support::any_elastic_world w{
      o, [&](const auto& world, const auto& group, environment env, const parallel::elastic_pipeline_options& e) {
        auto trainer = support::local_trainer(
            world, group, std::move(env), regions_apart(),
            parallel::local_pipeline<>{{.micro_batches = e.micro_batches, .steps = o.steps}, stage::recovery::regroup{2}});
        return std::make_unique<support::local_peer_of<decltype(trainer)>>(std::move(trainer), look);
      }};
  come = [&] {
    w.boot(4);
    w.boot(5);
  };
  w.boot();
  w.run();
  CHECK(support::errors_of(w, o.hosts).empty());
  CHECK(w.finished() == o.hosts);
  for (const std::uint32_t times : seen) CHECK(times > 6);
}

TEST_CASE("local pipeline: hubs of hubs go on whoever of three pipelines is lost", "[parallel][elastic]") {
  auto o = support::two_pipelines();
  o.hosts = 6;
  support::goes_on_whoever_is_killed<halos>(67, 0.03, o);
}

TEST_CASE("local pipeline: and so they do whoever is lost at every single network call",
          "[parallel][elastic][local_pipeline][slow][every_call]") {
  support::goes_on_whoever_is_killed<async_local_sgd>(1, 0.03);
}

TEST_CASE("local pipeline: hubs of hubs go on whoever is lost at every single network call",
          "[parallel][elastic][local_pipeline][slow][every_call]") {
  auto o = support::two_pipelines();
  o.steps = 6;
  support::goes_on_whoever_is_killed<halos>(1, 0.03, o);
}

TEMPLATE_TEST_CASE("local pipeline: a spare peer takes a lost one's place, and pushes", "[parallel][elastic]",
                   async_local_sgd, halos) {
  support::spare_peers_push<TestType>();
}

TEMPLATE_TEST_CASE("local pipeline: a stage that nobody has any more comes back with its hub", "[parallel][elastic]",
                   async_local_sgd, decoupled_diloco, halos) {
  support::lost_stages_come_back<TestType>(61);
}

TEMPLATE_TEST_CASE("local pipeline: hubs go on when all were stopped", "[parallel][elastic][fast]", async_local_sgd,
                   halos) {
  support::hubs_go_on_when_all_were_stopped<TestType>();
}
