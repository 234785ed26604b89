// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/sgd.hpp>

#include "golden/optimizers.hpp"
#include "support/catch.hpp"
#include "support/optimizer_cases.hpp"

using namespace causeway;
using namespace causeway::optim;

TEST_CASE("sgd: ten steps end where PyTorch's do, with and without momentum", "[optim][fast]") {
  for (const unsigned threads : {1U, 3U}) {
    CHECK(test::golden_error(test::golden_run(sgd{{.weight_decay = 0.02F}}, threads), golden::sgd) < 1e-6);
    CHECK(test::golden_error(test::golden_run(sgd{{.momentum = 0.9F, .weight_decay = 0.02F}}, threads), golden::momentum) <
          1e-6);
  }
}

TEST_CASE("sgd: goes on from a checkpoint as if there had been none", "[optim][fast]") {
  CHECK(test::survives_a_checkpoint<sgd>(sgd_options{.momentum = 0.9F}));
  CHECK(test::survives_a_checkpoint<sgd>(sgd_options{}));
}

TEST_CASE("sgd: at rate 1 without momentum it subtracts the pseudo-gradient exactly", "[optim][fast]") {
  thread_pool pool{2};
  std::vector<float> values(40000), gradients(40000);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = test::draw(static_cast<std::int64_t>(i));
    gradients[i] = 1e-3F * test::draw(static_cast<std::int64_t>(i) + 1000000);
  }
  auto expected = values;
  for (std::size_t i = 0; i < values.size(); ++i) expected[i] = values[i] - gradients[i];
  sgd optimizer;
  optimizer.reset(40000);
  optimizer.step(pool, {values, gradients, {}}, {.learning_rate = 1.0F});
  CHECK(values == expected);
}

TEST_CASE("sgd: keeps state only for momentum", "[optim][fast]") {
  const auto bytes = [](sgd optimizer) {
    optimizer.reset(1000);
    test::memory_archive archive;
    archive(optimizer);
    return archive.bytes.size();
  };
  CHECK(bytes(sgd{}) == sizeof(std::uint64_t));
  CHECK(bytes(sgd{{.momentum = 0.5F}}) > 4000);
}
