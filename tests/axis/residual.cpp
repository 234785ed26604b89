// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/residual.hpp>

#include "support/catch.hpp"

using namespace causeway;

TEST_CASE("residual: gains and decays", "[axis][fast]") {
  CHECK(axis::error_feedback{0.95F, 0.9F}.decay() == 0.95F);
  CHECK(axis::error_feedback{0.95F, 0.9F}.gain(0.5F) == 0.9F);
  CHECK(axis::momentum_residual{}.gain(0.5F) == 0.5F);
  CHECK(axis::momentum_residual{}.decay() == 0.999F);
  STATIC_REQUIRE(axis::implicit_residual::keeps == axis::keeping::in_parameters);
  STATIC_REQUIRE(axis::no_residual::keeps == axis::keeping::nothing);
}
