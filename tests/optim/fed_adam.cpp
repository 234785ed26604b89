// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/fed_adam.hpp>

#include <cmath>

#include "support/catch.hpp"
#include "support/optimizer_cases.hpp"

using namespace causeway;
using namespace causeway::optim;

TEST_CASE("fed adam: follows its equations, without a correction of the first steps", "[optim][fast]") {
  thread_pool pool;
  std::vector<float> values(3, 1.0F), gradients{0.0F, 0.5F, -2.0F};
  fed_adam optimizer{{.beta1 = 0.5F, .beta2 = 0.75F, .tau = 0.25F}};
  optimizer.reset(3);
  std::vector<double> p(3, 1.0), m(3, 0.0), v(3, 0.0625);
  for (int step = 0; step < 5; ++step) {
    optimizer.step(pool, {values, gradients, {}}, {.learning_rate = 0.1F, .gradient_scale = 0.5F});
    for (std::size_t i = 0; i < 3; ++i) {
      const double g = 0.5 * double(gradients[i]);
      m[i] = 0.5 * m[i] + 0.5 * g;
      v[i] = 0.75 * v[i] + 0.25 * g * g;
      p[i] -= 0.1 * m[i] / (std::sqrt(v[i]) + 0.25);
      CHECK(double(values[i]) == Approx(p[i]).epsilon(1e-6));
    }
  }
  CHECK(values[0] == 1.0F);
}

TEST_CASE("fed adam: goes on from a checkpoint, and leaves padding alone", "[optim][fast]") {
  CHECK(test::survives_a_checkpoint<fed_adam>(fed_adam_options{}));
  auto store = test::golden_run(fed_adam{}, 3);
  std::int64_t end = 0;
  for (const auto& s : store.segments()) {
    for (; end < s.offset; ++end) CHECK(store.values()[static_cast<std::size_t>(end)] == 0.0F);
    end = s.offset + s.size();
  }
}
