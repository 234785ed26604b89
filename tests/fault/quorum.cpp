// SPDX-License-Identifier: Apache-2.0
#include <causeway/fault/quorum.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/comm/periodic.hpp>
#include <causeway/train/trainer.hpp>

#include "support/catch.hpp"
#include "support/quadratic.hpp"

using namespace causeway;

TEST_CASE("quorum: lets peers come and go, and asks for failed exchanges again", "[fault][fast]") {
  STATIC_REQUIRE(fault::quorum<>::traits.produces == peers::elastic);
  STATIC_REQUIRE(fault::quorum<>::traits.retries);
  STATIC_REQUIRE(rules::c1(comm::periodic<>::traits, fault::quorum<>::traits));
  STATIC_REQUIRE(rules::c1(comm::every_step<>::traits, fault::quorum<>::traits));
}

TEST_CASE("quorum: without a membership a trainer does not start, and says what is missing", "[fault][fast]") {
  auto trainer = make_trainer(support::test_model{support::quadratic{}}, environment{}, {},
                              comm::periodic<>{{.local_steps = 1}}, fault::quorum{});
  const auto started = trainer.start();
  REQUIRE(!started);
  CHECK(started.error().code == errc::invalid_argument);
  CHECK(started.error().message.find("environment::group") != std::string::npos);
}
