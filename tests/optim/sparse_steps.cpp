// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/sparse_steps.hpp>

#include <cmath>
#include <vector>

#include "support/catch.hpp"
#include "support/optimizer_cases.hpp"

using namespace causeway;
using namespace causeway::optim;

namespace {

struct tensor {
  thread_pool pool{1};
  std::vector<float> values{1, 2, 3, 4};
  std::vector<parameter_segment> segments{{"w", parameter_kind::matrix, 1, 4, 0}};

  explicit tensor(parameter_kind kind = parameter_kind::matrix) { segments[0].kind = kind; }
  template <class O>
  void step(O& optimizer, std::vector<float> gradients, float scale = 1) {
    optimizer.step(pool, {values, gradients, segments}, {.learning_rate = 0.5F, .gradient_scale = scale});
  }
};

template <class O>
O begun(O optimizer) {
  optimizer.reset(4);
  return optimizer;
}

}  // namespace

TEST_CASE("sparse steps: SGD's momentum moves nothing that did not come, and waits for it", "[optim][fast]") {
  auto sgd = begun(sparse_sgd{sparse_sgd_options{.momentum = 0.5F}});
  tensor t;
  t.step(sgd, {2, 0, -4, 0}, 0.5F);
  CHECK(t.values == std::vector<float>{0.5F, 2, 4, 4});
  t.step(sgd, {0, 1, 0, 0});
  CHECK(t.values == std::vector<float>{0.5F, 1.5F, 4, 4});
  t.step(sgd, {1, 0, 0, 0});  // u = 0.5·1 + 1: as of the step before, not of two
  CHECK(t.values == std::vector<float>{-0.25F, 1.5F, 4, 4});
}

TEST_CASE("sparse steps: weight decay is of matrices, where something came", "[optim][fast]") {
  const sparse_sgd_options o{.momentum = 0, .weight_decay = 0.25F};
  auto sgd = begun(sparse_sgd{o});
  tensor t;
  t.step(sgd, {1, 0, 0, 0});
  CHECK(t.values == std::vector<float>{1 - 0.5F * 1.25F, 2, 3, 4});
  auto of_vector = begun(sparse_sgd{o});
  tensor v{parameter_kind::vector};
  v.step(of_vector, {1, 0, 0, 0});
  CHECK(v.values[0] == 0.5F);
}

TEST_CASE("sparse steps: Adam's first step is the rate, its moments stay where nothing came, and empty steps do not count",
          "[optim][fast]") {
  auto adam = begun(sparse_adam{sparse_adam_options{.beta1 = 0.5F, .beta2 = 0.75F}});
  tensor t;
  t.step(adam, {0, 0, 0, 0});
  CHECK(adam.steps() == 0);
  t.step(adam, {-3, 0, 0, 7});
  CHECK(t.values[0] == Approx(1.5F));
  CHECK(t.values[3] == Approx(3.5F));
  CHECK(t.values[1] == 2);
  t.step(adam, {0, 2, 0, 0});
  CHECK(adam.steps() == 2);
  // m = 1, v = 1; of two steps: m / (1 - 1/4), v / (1 - 9/16).
  CHECK(t.values[1] == Approx(2 - 0.5 * (1 / 0.75) / std::sqrt(1 / 0.4375)));
  CHECK(t.values[0] == Approx(1.5F));
  CHECK(adam.moments()[0][0] == -1.5F);
  CHECK(adam.moments()[1][2] == 0);
}

TEST_CASE("sparse steps: where all comes they are SGD and Adam", "[optim][fast]") {
  const auto golden = [](auto optimizer, unsigned threads) { return test::golden_run(std::move(optimizer), threads); };
  const auto sgd = golden(sparse_sgd{sparse_sgd_options{.momentum = 0.9F}}, 1);
  CHECK(sgd.values()[0] != 0);
  for (const unsigned threads : {1U, 3U}) {
    const auto again = golden(sparse_adam{sparse_adam_options{.beta2 = 0.95F}}, threads);
    const auto dense = golden(adamw{adamw_options{.weight_decay = 0}}, threads);
    for (std::size_t i = 0; i < again.values().size(); ++i) CHECK(again.values()[i] == Approx(dense.values()[i]));
  }
}
