// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/compressed.hpp>

#include <causeway/optim/dion.hpp>
#include <causeway/optim/sparse_steps.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/blocky.hpp"
#include "support/conformance.hpp"
#include "support/networks.hpp"
#include "support/quadratic.hpp"
#include "support/simulated_runs.hpp"
#include "support/test_model.hpp"

using namespace causeway;
using presets::make;
using support::blocky;
using support::check_communication_policy;

namespace {

struct given_dion : optim::dion {
  given_dion() : optim::dion{optim::dion_options{.given = true}} {}
};

}  // namespace

TEST_CASE("presets: compressed systems say what they are", "[presets][fast]") {
  CHECK(make(presets::sparse_loco_options{}).trigger().local_steps == 30);
  STATIC_REQUIRE(presets::sparse_loco::traits.identical_replicas);
  STATIC_REQUIRE(presets::demo::traits.exchanges_gradients);
  STATIC_REQUIRE_FALSE(presets::sparta::traits.identical_replicas);
  STATIC_REQUIRE(presets::sparta_diloco::traits.identical_replicas);
}

TEST_CASE("presets: SparseLoCo and SPARTA pass the conformance suite", "[presets][fast]") {
  check_communication_policy<optim::adamw, blocky>(
      [] { return make(presets::sparse_loco_options{.local_steps = 3, .k = 4}); });
  check_communication_policy<optim::adamw, blocky>([] { return make(presets::sparta_options{.share = 0.3}); });
  check_communication_policy<optim::adamw, blocky>(
      [] { return make(presets::sparta_diloco_options{.sparta = {.share = 0.3}, .local_steps = 3}); });
}

TEST_CASE("presets: DeMo and DisTrO pass the conformance suite", "[presets][fast]") {
  check_communication_policy<optim::sgd, blocky>([] { return make(presets::demo_options{.k = 4}); });
  check_communication_policy<optim::sgd, blocky>([] { return make(presets::distro_options{{.k = 4}}); });
  check_communication_policy<optim::sgd, blocky>([] { return make(presets::demo_options{.k = 4}); }, {.peers = 1});
  check_communication_policy<optim::sgd, blocky>([] { return make(presets::distro_options{{.k = 4}}); }, {.peers = 1});
}

TEST_CASE("presets: DeMo's step is of signs for a peer alone, too", "[presets][fast]") {
  constexpr float rate = 1.0F / 64;
  auto t = make_trainer(support::test_model{support::quadratic{208}}, environment{},
                        trainer_options{.learning_rate = optim::constant{rate}, .clip_norm = 0},
                        make(presets::demo_options{.k = 4}), optim::sgd{});
  REQUIRE(t.start());
  const auto values = t.context().parameters();
  const std::vector<float> before{values.begin(), values.end()};
  const std::vector<std::int32_t> tokens{1};
  REQUIRE(t.step({.inputs = tokens, .targets = tokens, .sequences = 1}));
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(std::abs(values[i] - before[i]) == Approx(rate).margin(1e-6));
}

TEST_CASE("presets: PowerSGD passes the conformance suite", "[presets][fast]") {
  check_communication_policy<optim::sgd, blocky>([] { return make(presets::power_sgd_options{2}); });
}

TEST_CASE("presets: Dion passes the conformance suite, also alone", "[presets][fast]") {
  const auto policy = [] { return make(presets::dion_options{.rank = 2}); };
  check_communication_policy<given_dion, blocky>(policy);
  check_communication_policy<given_dion, blocky>(policy, {.peers = 1});
}

TEST_CASE("presets: StellaTrain passes the conformance suite, in parts and alone, too", "[presets][fast]") {
  for (const bool in_parts : {false, true}) {
    const auto policy = [in_parts] { return make(presets::stella_train_options{.share = 0.5, .in_parts = in_parts}); };
    check_communication_policy<optim::sparse_adam, blocky>(policy);
    check_communication_policy<optim::sparse_sgd, blocky>(policy, {.peers = 1});
  }
}

TEST_CASE("presets: CocktailSGD and Gaia pass the conformance suite", "[presets][fast]") {
  check_communication_policy<optim::sgd, blocky>(
      [] { return make(presets::cocktail_sgd_options{.mask_share = 0.5, .k = 64}); });
  check_communication_policy<optim::sgd, blocky>([] { return make(presets::gaia_options{0.05F}); });
}

TEST_CASE("presets: Gaia's sites train at their own pace", "[presets][fast]") {
  CHECK(presets::gaia_asp_options{}.threshold == 0.01F);
  const auto policy = [] { return make(presets::gaia_asp_options{.threshold = 0.05F, .most_ahead = 2}); };
  support::simulated_runs<optim::adamw, blocky, decltype(policy)> runs{policy,
                                                                       {.peers = 4, .steps = 12, .speeds = {1, 2, 3, 1}}};
  const auto run = runs.run();
  support::all_alike(run);
  CHECK(runs.run().history == run.history);
}

TEST_CASE("presets: DeDLOC steps when all peers together have enough samples", "[presets][fast]") {
  const auto policy = [] { return make(presets::dedloc_options{.batch = 9, .shares = {2, 1, 0}}); };
  support::simulated_runs<optim::sgd, blocky, decltype(policy)> runs{policy, {.peers = 3, .steps = 6, .speeds = {1, 2, 2}}};
  const auto run = runs.run();
  support::all_alike(run);
  CHECK(run.peers[0].rounds >= 1);
}

TEST_CASE("presets: compressed systems give the same bits on every network", "[presets][net]") {
  support::check_networks([] { return make(presets::sparse_loco_options{.local_steps = 3, .k = 4}); });
  support::check_networks([] { return make(presets::sparta_options{.share = 0.3}); });
  support::check_networks([] { return make(presets::sparta_diloco_options{.sparta = {.share = 0.3}, .local_steps = 3}); });
  support::check_networks<optim::sgd>([] { return make(presets::demo_options{.k = 4}); });
  support::check_networks<optim::sgd>([] { return make(presets::distro_options{{.k = 4}}); });
  support::check_networks<optim::sgd>([] { return make(presets::power_sgd_options{2}); });
  support::check_networks<optim::sparse_sgd>([] { return make(presets::stella_train_options{.share = 0.5}); });
  support::check_networks<given_dion>([] { return make(presets::dion_options{.rank = 2}); });
  support::check_networks<optim::sgd>([] { return make(presets::cocktail_sgd_options{.mask_share = 0.5, .k = 64}); });
  support::check_networks<optim::sgd>([] { return make(presets::gaia_options{0.05F}); });
}
