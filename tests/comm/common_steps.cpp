// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/common_steps.hpp>

#include <cstdint>

#include "support/catch.hpp"

using causeway::comm::detail::common_steps;

TEST_CASE("common steps: a newcomer begins where more than half of the peers say that they are", "[comm][fast]") {
  constexpr std::uint64_t lie = UINT64_MAX;
  CHECK(common_steps({40}, 0) == 40);
  CHECK(common_steps({40, 30, 50}, 0) == 40);
  CHECK(common_steps({40, 30, lie}, 0) == 40);
  CHECK(common_steps({lie, 30}, 0) == 30);
  CHECK(common_steps({40, 0, 50}, 0) == 40);
  CHECK(common_steps({0, 0, lie}, 20) == 20);  // newcomers take no one back
  CHECK(common_steps({}, 20) == 20);
}
