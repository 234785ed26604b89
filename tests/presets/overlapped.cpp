// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/overlapped.hpp>

#include "support/blocky.hpp"
#include "support/conformance.hpp"
#include "support/networks.hpp"

using namespace causeway;
using presets::make;
using support::blocky;
using support::check_communication_policy;

TEST_CASE("presets: overlapped systems have their papers' options", "[presets][fast]") {
  CHECK(make(presets::streaming_diloco_options{}).trigger().local_steps == 100);
  CHECK(make(presets::streaming_diloco_options{}).landing().local_share == 0.5F);
  CHECK(presets::streaming_diloco_options{}.outer_learning_rate == 0.4F);
  STATIC_REQUIRE(presets::streaming_diloco::traits.identical_replicas);
  STATIC_REQUIRE_FALSE(presets::eager_diloco::traits.identical_replicas);
}

TEST_CASE("presets: overlapped systems pass the conformance suite", "[presets][fast]") {
  check_communication_policy<optim::adamw, blocky>(
      [] { return make(presets::streaming_diloco_options{.local_steps = 4, .blocks_in_fragment = 2}); });
  check_communication_policy<optim::adamw, blocky>([] { return make(presets::eager_diloco_options{.local_steps = 2}); });
  check_communication_policy<optim::adamw, blocky>(
      [] { return make(presets::cocodc_options{.local_steps = 4, .blocks_in_fragment = 2, .overlap_steps = 2}); });
}

TEST_CASE("presets: overlapped systems give the same bits on every network", "[presets][net]") {
  support::check_networks([] { return make(presets::streaming_diloco_options{.local_steps = 4, .blocks_in_fragment = 2}); });
  support::check_networks([] { return make(presets::eager_diloco_options{.local_steps = 2}); });
  support::check_networks(
      [] { return make(presets::cocodc_options{.local_steps = 4, .blocks_in_fragment = 2, .overlap_steps = 2}); });
}
