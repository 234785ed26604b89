// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/adam_state.hpp>

#include <causeway/optim/adamw.hpp>

#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using optim::detail::adam_state, optim::detail::move_moments;

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

TEST_CASE("adam state: a gradient moves both moments, in whole lanes and in a tail", "[optim][fast]") {
  const struct { float gradient_scale = 0.5F, beta1 = 0.75F, rest1 = 0.25F, beta2 = 0.5F, rest2 = 0.5F; } c;
  std::vector<float> g(18, 4.0F), m(18, 1.0F), v(18, 14.0F), roots(18);
  kernels::detail::for_lanes(18, [&](std::int64_t i, auto part) {
    kernels::detail::f32x16 gradient, first, root;
    move_moments(gradient, first, root, g.data(), m.data(), v.data(), i, part, c);
    kernels::detail::store(roots.data() + i, root, part);
  });
  CHECK(m == std::vector<float>(18, 0.75F * 1.0F + 0.25F * 2.0F));
  CHECK(v == std::vector<float>(18, 0.5F * 14.0F + 0.5F * 4.0F));
  CHECK(roots == std::vector<float>(18, 3.0F));
}
