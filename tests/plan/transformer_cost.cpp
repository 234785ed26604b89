// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/transformer_cost.hpp>

#include <cstddef>

#include "support/catch.hpp"

using namespace causeway;
using plan::find_transformer;

TEST_CASE("presets have the published numbers of parameters", "[plan][fast]") {
  CHECK(plan::total_parameters(*find_transformer("gpt2")) == 124439808);  // exactly GPT-2's
  CHECK(plan::total_parameters(*find_transformer("gpt2-xl")) == 1557611200);
  CHECK(plan::total_parameters(*find_transformer("gpt3-xl")) == Approx(1.3e9).epsilon(0.03));
  CHECK(plan::total_parameters(*find_transformer("gpt3-175b")) == Approx(175e9).epsilon(0.01));
  CHECK(plan::total_parameters(*find_transformer("llama-7b")) == 6738415616);
  CHECK(plan::total_parameters(*find_transformer("llama-65b")) == Approx(65.2e9).epsilon(0.01));
  CHECK(plan::total_parameters(*find_transformer("llama3-8b")) == 8030261248);
  CHECK(plan::total_parameters(*find_transformer("llama3-70b")) == Approx(70.55e9).epsilon(0.001));
  CHECK(find_transformer("gpt5") == nullptr);
}

TEST_CASE("stages add up to the model, with six operations per parameter and token, and two for recomputing",
          "[plan][fast]") {
  const auto& t = *find_transformer("gpt3-6.7b");
  const auto m = plan::cost_of(t, 2048, {});
  const auto all = plan::cost_of_stage(m, 0, t.layers);
  CHECK(all.parameters == Approx(plan::total_parameters(t)).epsilon(1e-5));
  CHECK(all.seconds == Approx(8.0 * 2048 * plan::total_parameters(t)).epsilon(0.06));
  CHECK(plan::boundary_bytes(t, 10, {}) == 10 * 4096 * 2);
  CHECK(m.blocks[0].activation == 2048 * 4096 * 2);
}
