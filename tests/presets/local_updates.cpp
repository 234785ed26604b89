// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/local_updates.hpp>

#include "support/conformance.hpp"

using namespace causeway;

TEST_CASE("presets: each makes a trainer with its paper's options", "[presets][fast]") {
  STATIC_REQUIRE(CommunicationPolicy<presets::every_step>);
  STATIC_REQUIRE(CommunicationPolicy<presets::diloco>);
  STATIC_REQUIRE(CommunicationPolicy<presets::local_sgd>);
  STATIC_REQUIRE(CommunicationPolicy<presets::fedavg>);
  CHECK(presets::diloco{presets::diloco_options}.options().local_steps == 500);
  CHECK(presets::diloco_options.outer_learning_rate == 0.7F);
  CHECK(presets::diloco_outer.momentum == 0.9F);
}

TEST_CASE("presets: local SGD passes the conformance suite", "[presets][fast]") {
  support::check_communication_policy<optim::sgd>([] { return presets::local_sgd{{3, 1.0F}}; });
}
