// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/snoo.hpp>

#include <causeway/optim/sgd.hpp>

#include <vector>

#include "support/catch.hpp"
#include "support/optimizer_cases.hpp"

using namespace causeway;
using namespace causeway::optim;

TEST_CASE("snoo: without momentum and at rate 1 it is its inner optimizer", "[optim][fast]") {
  const snoo_options plain{.local_steps = 3, .outer_learning_rate = 1.0F, .outer_momentum = 0.0F};
  const auto wrapped = test::golden_run(snoo<adamw>{plain}, 2), bare = test::golden_run(adamw{}, 2);
  for (std::size_t i = 0; i < wrapped.values().size(); ++i) {
    CHECK(wrapped.values()[i] == Approx(bare.values()[i]).margin(1e-6));
  }
}

TEST_CASE("snoo: Lookahead goes a share of the way that the inner steps went", "[optim][fast]") {
  thread_pool pool;
  std::vector<float> values(32, 1.0F), gradients(32, 1.0F);
  snoo<sgd> optimizer{{.local_steps = 2, .outer_learning_rate = 0.5F, .outer_momentum = 0.0F}, sgd{}};
  optimizer.reset(32);
  const auto step = [&] { optimizer.step(pool, {values, gradients, {}}, {.learning_rate = 0.25F}); };
  step();
  CHECK(values[0] == 0.75F);
  step();
  CHECK(values[0] == 0.75F);  // half of the way from 1 to 0.5
  step();
  CHECK(values[31] == 0.5F);
}

TEST_CASE("snoo: a steady pseudo-gradient is amplified to 1/(1-momentum) times its size", "[optim][fast]") {
  thread_pool pool;
  std::vector<float> values(16, 0.0F), gradients(16, 1.0F);
  snoo<sgd> optimizer{{.local_steps = 2, .outer_learning_rate = 1.0F, .outer_momentum = 0.5F}, sgd{}};
  optimizer.reset(16);
  const auto round = [&] {
    for (int i = 0; i < 2; ++i) optimizer.step(pool, {values, gradients, {}}, {.learning_rate = 0.5F});
  };
  for (int i = 0; i < 40; ++i) round();
  const float before = values[0];
  round();
  CHECK(before - values[0] == Approx(2.0F));
}

TEST_CASE("snoo: goes on from a checkpoint as if there had been none", "[optim][fast]") {
  CHECK(test::survives_a_checkpoint<snoo<>>(snoo_options{.local_steps = 3}));
}

TEST_CASE("snoo: starts over from where the parameters are then", "[optim][fast]") {
  thread_pool pool;
  std::vector<float> values(16, 4.0F), gradients(16, 1.0F);
  snoo<sgd> optimizer{{.local_steps = 1, .outer_learning_rate = 1.0F, .outer_momentum = 0.9F}, sgd{}};
  for (int i = 0; i < 2; ++i) {
    optimizer.reset(16);
    std::fill(values.begin(), values.end(), 4.0F);
    optimizer.step(pool, {values, gradients, {}}, {.learning_rate = 1.0F});
    CHECK(values[3] == Approx(4.0F - 1.9F));
  }
}
