// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/sign_sgd.hpp>

#include "support/catch.hpp"
#include "support/optimizer_cases.hpp"

using namespace causeway;
using namespace causeway::optim;

TEST_CASE("sign sgd: moves by the rate against the sign, and not at all for 0", "[optim][fast]") {
  thread_pool pool;
  std::vector<float> values{1.0F, 1.0F, 1.0F}, gradients{1e-30F, -7.0F, 0.0F};
  sign_sgd optimizer;
  optimizer.reset(3);
  optimizer.step(pool, {values, gradients, {}}, {.learning_rate = 0.25F});
  CHECK(values == std::vector<float>{0.75F, 1.25F, 1.0F});
}

TEST_CASE("sign sgd: with momentum one step the other way does not turn it round", "[optim][fast]") {
  thread_pool pool;
  std::vector<float> values{0.0F}, gradients{1.0F};
  sign_sgd optimizer{{.momentum = 0.75F}};
  optimizer.reset(1);
  for (int i = 0; i < 4; ++i) optimizer.step(pool, {values, gradients, {}}, {.learning_rate = 1.0F});
  gradients[0] = -1.0F;
  optimizer.step(pool, {values, gradients, {}}, {.learning_rate = 1.0F});
  CHECK(values[0] == -5.0F);
  for (int i = 0; i < 4; ++i) optimizer.step(pool, {values, gradients, {}}, {.learning_rate = 1.0F});
  CHECK(values[0] == -1.0F);  // u went from 0.26 to -0.05, -0.29, -0.47, -0.60
}

TEST_CASE("sign sgd: decays matrices and tables, not vectors", "[optim][fast]") {
  thread_pool pool;
  auto store = test::golden_parameters();
  test::fill(store, store.values(), 1);
  const std::vector<float> before(store.values().begin(), store.values().end());
  sign_sgd optimizer{{.weight_decay = 0.5F}};
  optimizer.reset(store.length());
  optimizer.step(pool, store.view(), {.learning_rate = 0.5F});  // no gradient anywhere
  for (const auto& s : store.segments()) {
    for (std::int64_t i = s.offset; i < s.offset + s.size(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      CHECK(store.values()[at] == before[at] * (s.kind == parameter_kind::vector ? 1.0F : 0.75F));
    }
  }
}

TEST_CASE("sign sgd: goes on from a checkpoint as if there had been none", "[optim][fast]") {
  CHECK(test::survives_a_checkpoint<sign_sgd>(sign_sgd_options{.momentum = 0.9F}));
  CHECK(test::survives_a_checkpoint<sign_sgd>(sign_sgd_options{}));
}
