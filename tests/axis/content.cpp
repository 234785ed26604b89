// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/content.hpp>

#include <causeway/optim/adamw.hpp>
#include <causeway/train/context.hpp>

#include "support/blocky.hpp"
#include "support/catch.hpp"

using namespace causeway;

TEST_CASE("content: moments lie beside the parameters, equally long", "[axis][fast]") {
  training_context<support::blocky, optim::adamw> ctx{support::blocky{}, optim::adamw{}, environment{}, {}, false};
  const auto tensors = axis::parameters_and_moments::tensors(ctx);
  REQUIRE(tensors.size() == axis::parameters_and_moments::tensor_count);
  for (const auto& t : tensors) CHECK(t.size() == ctx.parameters().size());
  CHECK(tensors[0].data() == ctx.parameters().data());
  CHECK(axis::parameters::tensors(ctx).size() == axis::parameters::tensor_count);
}
