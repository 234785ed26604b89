// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/nesterov.hpp>

#include "golden/optimizers.hpp"
#include "support/catch.hpp"
#include "support/optimizer_cases.hpp"

using namespace causeway;
using namespace causeway::optim;

TEST_CASE("nesterov: ten steps end where PyTorch's do", "[optim][fast]") {
  for (const unsigned threads : {1U, 3U}) {
    CHECK(test::golden_error(test::golden_run(nesterov{{.weight_decay = 0.02F}}, threads), golden::nesterov) < 1e-6);
  }
}

TEST_CASE("nesterov: goes on from a checkpoint as if there had been none", "[optim][fast]") {
  CHECK(test::survives_a_checkpoint<nesterov>(nesterov_options{}));
}

TEST_CASE("nesterov: a steady gradient is amplified to 1/(1-momentum) times its size", "[optim][fast]") {
  thread_pool pool;
  std::vector<float> values(32, 0.0F), gradients(32, 1.0F);
  nesterov optimizer{{.momentum = 0.5F}};
  optimizer.reset(32);
  for (int i = 0; i < 60; ++i) optimizer.step(pool, {values, gradients, {}}, {.learning_rate = 1.0F});
  const float before = values[0];
  optimizer.step(pool, {values, gradients, {}}, {.learning_rate = 1.0F});
  CHECK(before - values[0] == Approx(2.0F));
}
