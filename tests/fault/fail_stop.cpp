// SPDX-License-Identifier: Apache-2.0
#include <causeway/fault/fail_stop.hpp>

#include "support/catch.hpp"
#include "support/conformance.hpp"

using namespace causeway;

TEST_CASE("fail stop: commits what succeeded and aborts at the first failure", "[fault][fast]") {
  fault::fail_stop policy;
  archetype::context* nobody = nullptr;
  CHECK(policy.begin_step(nobody));
  CHECK(policy.end_step(nobody, result<void>{}).value() == verdict::commit);
  CHECK(policy.end_step(nobody, fail(errc::peer_lost, "peer 1", "gone")).value() == verdict::abort);
  STATIC_REQUIRE(!fault::fail_stop::traits.retries);
}

TEST_CASE("fail stop: the conformance suite", "[fault][fast]") {
  support::check_fault_policy([] { return fault::fail_stop{}; });
}
