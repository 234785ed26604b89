// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/adam_state.hpp>

#include <causeway/optim/adamw.hpp>

#include "support/catch.hpp"

using namespace causeway;
using optim::detail::adam_state;

TEST_CASE("adam state: moments in the layout of the parameters, which begin anew with the steps", "[optim][fast]") {
  adam_state<optim::adam_clock> state;
  state.reset(5);
  state.clock.advance({}, {});
  state.second.data()[4] = 2;
  REQUIRE(state.moments().size() == 2);
  CHECK(state.moments()[0].data() == state.first.data());
  CHECK(state.moments()[1].size() == 5);
  CHECK(state.moments()[1][4] == 2);
  state.reset(5);
  CHECK(state.moments()[1][4] == 0);
  CHECK(state.clock.steps() == 0);
}
