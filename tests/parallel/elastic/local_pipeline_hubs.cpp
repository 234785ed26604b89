// SPDX-License-Identifier: Apache-2.0
// Pipelines whose replicas take steps of their own, with a hub for each stage.
#include <causeway/presets/asynchronous.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "parallel/elastic/local_pipeline_world.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "support/catch.hpp"

using namespace causeway;

namespace {

/// A record after three steps of the quickest replica, on batches of four samples.
struct async_local_sgd {
  [[nodiscard]] static auto policy() {
    return make(presets::async_local_sgd_options{.local_steps = 1, .period = 2, .record_samples = 12});
  }
};
struct decoupled_diloco {
  [[nodiscard]] static auto policy() {
    return make(presets::decoupled_diloco_options{
        .local_steps = 2, .fragments = 2, .overlap_steps = 1, .outer_momentum = 0.5F, .record_samples = 12});
  }
};
/// Pushes after every second step, a record after four.
struct in_pairs {
  static constexpr float rate = 0.7F, momentum = 0.9F;
  [[nodiscard]] static auto policy() {
    return comm::async_parameter_server{
        axis::every{2}, axis::star{.record_samples = 16},
        axis::outer<optim::delayed_nesterov>{rate, optim::delayed_nesterov{{.momentum = momentum, .period = 2}}}};
  }
};

/// What a hub does with two whole models, by the formula of Liu et al. (algorithm 3), with N = 2.
class hub_by_hand {
 public:
  void push(std::span<float> shared, std::vector<float>& pulled, std::span<float> model) {
    momentum_.resize(shared.size());
    sum_.resize(shared.size());
    ++pushes_;
    for (std::size_t i = 0; i < shared.size(); ++i) {
      const float delta = pulled[i] - model[i];
      sum_[i] += delta;
      shared[i] -= in_pairs::rate * delta / 2;
      if (pushes_ % 2 != 0) continue;
      momentum_[i] = in_pairs::momentum * momentum_[i] + sum_[i] / 2;
      sum_[i] = 0;
      shared[i] -= in_pairs::rate * in_pairs::momentum * momentum_[i];
    }
    pull(shared, pulled, model);
  }
  static void pull(std::span<const float> shared, std::vector<float>& pulled, std::span<float> model) {
    pulled.assign(shared.begin(), shared.end());
    std::copy(shared.begin(), shared.end(), model.begin());
  }

 private:
  std::vector<float> momentum_, sum_;
  std::uint32_t pushes_ = 0;
};

/// The spare one makes no steps, and with the newcomer there are two pipelines.
template <class Options>
void lets_newcomers_in() {
  support::newcomer_in_each_step<support::local_world<Options>>(7, 15, [](auto& w, const auto& o) {
    for (std::uint32_t h = 0; h < o.hosts; ++h) CHECK(w.last_assignment(h) != nullptr);
  });
}

}  // namespace

// The second pipeline waits for answers of the first one's hubs, which are in a step of theirs, and so makes fewer steps
// from record to record. Which they are is taken from the run. Pushes come in turn, the first pipeline's first.
TEST_CASE("local pipeline: hubs of stages come to what a hub of whole models comes to", "[parallel][elastic][fast]") {
  auto o = support::two_pipelines();
  o.steps = 12;
  std::array<std::set<std::uint64_t>, 4> began;
  o.before_step = [&](std::uint32_t host, std::uint64_t step) { began[host].insert(step); };
  support::local_world<in_pairs> w{o};
  w.boot();
  w.run();
  REQUIRE(w.finished() == 4);
  std::array<std::set<std::uint64_t>, 2> made;
  for (std::uint32_t h = 0; h < 4; ++h) {
    stage::layout::place at;
    REQUIRE(w.at(h).layouts.at(1).find(w.at(h).id, &at) != nullptr);
    made[at.replica] = began[h];
  }
  CHECK(made[0].size() == 12);
  CHECK(made[1].size() < 12);
  hub_by_hand hub;
  std::array<std::vector<float>, 2> pulled;
  std::array<std::uint32_t, 2> since{};
  const auto by_hand = support::models_by_hand<2>(
      o,
      [&](std::uint64_t steps, parameter_store& shared, const auto& models) {
        if (steps == 1) pulled.fill({shared.values().begin(), shared.values().end()});
        const bool record = steps % 4 == 0;
        for (std::size_t m = 0; m < 2; ++m) {
          since[m] += made[m].contains(steps - 1) ? 1 : 0;
          if (since[m] != 2 && !(record && since[m] > 0)) continue;
          hub.push(shared.values(), pulled[m], models[m]);
          since[m] = 0;
        }
        for (std::size_t m = 0; record && m < 2; ++m) hub.pull(shared.values(), pulled[m], models[m]);
      },
      [&](std::size_t m, std::uint64_t step) { return made[m].contains(step); });
  CHECK(support::off(support::holders_agree(w, o.hosts), by_hand, o.layers) < 1e-4);
}

TEMPLATE_TEST_CASE("local pipeline: hubs of stages go on whoever is lost, and let others in", "[parallel][elastic]",
                   async_local_sgd, decoupled_diloco) {
  support::goes_on_whoever_is_killed<TestType>(29, 0.03);
  lets_newcomers_in<TestType>();
}

TEST_CASE("local pipeline: and so they do whoever is lost at every single network call",
          "[parallel][elastic][slow][every_call]") {
  support::goes_on_whoever_is_killed<async_local_sgd>(1, 0.03);
}

TEST_CASE("local pipeline: a spare peer takes a lost one's place, and pushes", "[parallel][elastic]") {
  auto o = support::two_pipelines();
  o.steps = 12;
  support::spare_peers_take_over<async_local_sgd>(o, 700, 97, [&](const auto& all, const auto& quiet) {
    CHECK(std::abs(support::held_out_loss(all, o.layers) / support::held_out_loss(quiet, o.layers) - 1) < 0.03);
  });
}

TEMPLATE_TEST_CASE("local pipeline: a stage that nobody has any more comes back with its hub", "[parallel][elastic]",
                   async_local_sgd, decoupled_diloco) {
  support::lost_stages_come_back<TestType>(61);
}

// After a record with the same bits. In the middle of a reign hubs are none any more, and all that was pushed since the
// record is pushed again in the next one, which comes at once.
TEST_CASE("local pipeline: hubs go on when all were stopped", "[parallel][elastic][fast]") {
  const auto o = support::two_pipelines();
  const auto quiet = support::undisturbed<async_local_sgd>(o);
  for (const std::uint64_t step : {3U, 4U}) {
    INFO("all are stopped after step " << step);
    support::local_checkpoints saved{.after = step};
    support::local_world<async_local_sgd> w{o, &saved};
    support::stop_all_once_saved(w, saved);
    CHECK(support::errors_of(w, o.hosts).empty());
    REQUIRE(w.finished() == o.hosts);
    const auto all = support::holders_agree(w, o.hosts);
    if (step == 3) CHECK(all == quiet);
    CHECK(std::abs(support::held_out_loss(all, o.layers) / support::held_out_loss(quiet, o.layers) - 1) < 0.03);
  }
}
