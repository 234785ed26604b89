// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/gossip.hpp>

#include "support/blocky.hpp"
#include "support/conformance.hpp"
#include "support/networks.hpp"

using namespace causeway;
using presets::make;
using support::blocky;
using support::check_communication_policy;

TEST_CASE("presets: gossip has its papers' options, and never identical replicas", "[presets][fast]") {
  CHECK(make(presets::noloco_options{}).trigger().local_steps == 50);
  STATIC_REQUIRE_FALSE(presets::noloco::traits.identical_replicas);
  STATIC_REQUIRE_FALSE(presets::moshpit_sgd::traits.identical_replicas);
}

TEST_CASE("presets: gossip passes the conformance suite", "[presets][fast]") {
  check_communication_policy<optim::adamw, blocky>([] { return make(presets::noloco_options{.local_steps = 2}); },
                                                   {.peers = 4});
  check_communication_policy<optim::adamw, blocky>(
      [] { return make(presets::moshpit_sgd_options{.local_steps = 2, .side = 2, .dimensions = 2}); }, {.peers = 4});
  check_communication_policy<optim::adamw, blocky>(
      [] { return make(presets::bacombo_options{.local_steps = 2, .segments = 3}); }, {.peers = 4});
}

TEST_CASE("presets: regions and trees pass the conformance suite", "[presets][fast]") {
  check_communication_policy<optim::adamw, blocky>([] { return make(presets::ravnest_options{.local_steps = 3}); },
                                                   {.peers = 4});
  check_communication_policy<optim::sgd, blocky>([] { return make(presets::netstorm_options{}); },
                                                 {.peers = 4, .steps = 4});
}

TEST_CASE("presets: NETSTORM's auxiliary paths pass the conformance suite", "[presets][slow][every_call]") {
  check_communication_policy<optim::sgd, blocky>([] { return make(presets::netstorm_options{.message_bytes = 32}); },
                                                 {.peers = 4, .steps = 2});
}

TEST_CASE("presets: gossip gives the same bits on every network", "[presets][net]") {
  support::check_networks([] { return make(presets::noloco_options{.local_steps = 2}); });
  support::check_networks([] { return make(presets::moshpit_sgd_options{.local_steps = 2, .side = 2, .dimensions = 2}); });
  support::check_networks([] { return make(presets::bacombo_options{.local_steps = 2, .segments = 3}); });
  const std::vector<double> links{0, 1, 9, 9, 1, 0, 9, 9, 9, 9, 0, 1, 9, 9, 1, 0};
  support::check_networks(
      [&] { return make(presets::bacombo_options{.local_steps = 2, .segments = 3, .link_costs = links, .explore = 0.3}); });
  support::check_networks([] { return make(presets::ravnest_options{.local_steps = 3}); });
  support::check_networks<optim::sgd>([] { return make(presets::netstorm_options{.message_bytes = 32}); });
}
