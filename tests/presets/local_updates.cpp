// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/local_updates.hpp>

#include "support/blocky.hpp"
#include "support/conformance.hpp"
#include "support/networks.hpp"

using namespace causeway;
using presets::make;
using support::blocky;
using support::check_communication_policy;

TEST_CASE("presets: local updates have their papers' options", "[presets][fast]") {
  STATIC_REQUIRE(CommunicationPolicy<presets::every_step>);
  CHECK(make(presets::diloco_options{}).trigger().local_steps == 500);
  CHECK(presets::diloco_options{}.outer_learning_rate == 0.7F);
  CHECK(make(presets::intellect1_options{}).trigger().local_steps == 100);
  STATIC_REQUIRE(presets::diloco::traits.tolerates == peers::elastic);
  STATIC_REQUIRE(presets::diloco::traits.identical_replicas);
  STATIC_REQUIRE_FALSE(presets::des_loc::traits.identical_replicas);
}

TEST_CASE("presets: DiLoCo and its codecs pass the conformance suite", "[presets][fast]") {
  check_communication_policy([] { return make(presets::diloco_options{.local_steps = 3}); });
  check_communication_policy([] { return make(presets::open_diloco_options{{.local_steps = 3}}); });
  check_communication_policy([] { return make(presets::intellect1_options{.local_steps = 3}); });
  check_communication_policy([] { return make(presets::muloco_options{.local_steps = 3}); });
}

TEST_CASE("presets: averages pass the conformance suite", "[presets][fast]") {
  check_communication_policy<optim::sgd>([] { return make(presets::local_sgd_options{3}); });
  check_communication_policy<optim::sgd>([] { return make(presets::fedavg_options{.local_steps = 3, .share = 0.7}); });
  check_communication_policy([] { return make(presets::photon_options{.local_steps = 3, .outer_momentum = 0.5F}); });
  check_communication_policy<optim::sgd>(
      [] { return make(presets::co_learning_options{{.local_steps = 1, .most = 4, .factor = 2, .tolerance = 0.3}}); });
}

TEST_CASE("presets: EDiT passes the conformance suite, with rows that are outliers", "[presets][fast]") {
  const auto policy = [] { return make(presets::edit_options{.local_steps = 1, .warm_up = 2, .threshold = 0.5}); };
  check_communication_policy<optim::sgd, blocky>(policy);
}

// The clock has gone on whenever they look: they meet, and exchange, after each step.
TEST_CASE("presets: A-EDiT passes the conformance suite", "[presets][fast]") {
  const auto policy = [] {
    return make(presets::a_edit_options{.seconds = 0, .fewest_steps = 1, .warm_up = 2, .threshold = 0.5});
  };
  check_communication_policy<optim::sgd, blocky>(policy, {.steps = 3});
}

TEST_CASE("presets: DES-LOC passes the conformance suite, and averages moments when they are due", "[presets][fast]") {
  check_communication_policy<optim::adamw, blocky>([] { return make(presets::des_loc_options{2, 3, 4}); });

  // After 4 steps with periods 1, 2, 4 all three tensors have just been averaged.
  std::vector<std::vector<float>> moments(3);
  support::run_cluster(3, [&](std::uint32_t peer, environment env) {
    auto t = make_trainer(support::test_model{blocky{}}, std::move(env), {}, make(presets::des_loc_options{1, 2, 4}),
                          optim::adamw{});
    REQUIRE(t.start());
    for (std::uint64_t s = 0; s < 4; ++s) {
      const auto tokens = support::tokens_of(peer, s);
      REQUIRE(t.step({tokens, tokens, 1}));
    }
    for (const auto m : t.context().inner().moments()) moments[peer].insert(moments[peer].end(), m.begin(), m.end());
  });
  CHECK(moments[0] == moments[1]);
  CHECK(moments[0] == moments[2]);
}

TEST_CASE("presets: local updates give the same bits on every network", "[presets][net]") {
  support::check_networks([] { return make(presets::diloco_options{.local_steps = 3}); });
  support::check_networks([] { return make(presets::open_diloco_options{{.local_steps = 3}}); });
  support::check_networks([] { return make(presets::intellect1_options{.local_steps = 3}); });
  support::check_networks([] { return make(presets::muloco_options{.local_steps = 3}); });
  support::check_networks<optim::sgd>([] { return make(presets::local_sgd_options{3}); });
  support::check_networks<optim::sgd>([] { return make(presets::fedavg_options{.local_steps = 3, .share = 0.7}); });
  support::check_networks([] { return make(presets::photon_options{.local_steps = 3, .outer_momentum = 0.5F}); });
  support::check_networks<optim::sgd>(
      [] { return make(presets::co_learning_options{{.local_steps = 1, .most = 4, .factor = 2, .tolerance = 0.3}}); });
  support::check_networks([] { return make(presets::des_loc_options{2, 3, 4}); });
  support::check_networks<optim::sgd>(
      [] { return make(presets::edit_options{.local_steps = 1, .warm_up = 2, .threshold = 0.5}); });
  support::check_networks<optim::sgd>(
      [] { return make(presets::a_edit_options{.seconds = 0, .fewest_steps = 1, .warm_up = 2, .threshold = 0.5}); });
}
