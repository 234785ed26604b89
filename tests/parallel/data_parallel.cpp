// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/data_parallel.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/train/trainer.hpp>

#include "support/catch.hpp"
#include "support/conformance.hpp"
#include "support/quadratic.hpp"

using namespace causeway;

namespace {

auto trained(std::int64_t micro_batches) {
  trainer_options options;
  options.learning_rate = optim::constant{0.25F};
  options.clip_norm = 0;
  auto t = make_trainer(support::quadratic{}, environment{}, options, comm::every_step<>{}, optim::sgd{},
                        parallel::data_parallel{{.micro_batches = micro_batches}});
  REQUIRE(t.start());
  double loss = 0;
  for (std::uint64_t s = 0; s < 3; ++s) {
    const auto tokens = support::tokens_of(0, s, 8);
    const auto report = t.step({tokens, tokens, 4});
    REQUIRE(report);
    loss = report->loss;
  }
  const auto values = t.model().parameters().values();
  return std::pair{loss, std::vector<float>(values.begin(), values.end())};
}

}  // namespace

TEST_CASE("data parallel: micro-batches give the gradient of the whole batch", "[parallel][fast]") {
  const auto whole = trained(1);
  for (const std::int64_t pieces : {2, 4}) {
    const auto cut = trained(pieces);
    CHECK(cut.first == Approx(whole.first).epsilon(1e-9));
    for (std::size_t i = 0; i < whole.second.size(); ++i) CHECK(cut.second[i] == Approx(whole.second[i]).margin(1e-6));
  }
}

TEST_CASE("data parallel: a batch that cannot be cut is an error with a remedy", "[parallel][fast]") {
  auto t = make_trainer(support::quadratic{}, environment{}, {}, parallel::data_parallel{{.micro_batches = 3}});
  REQUIRE(t.start());
  const auto tokens = support::tokens_of(0, 0, 8);
  const auto report = t.step({tokens, tokens, 4});
  REQUIRE(!report);
  CHECK(report.error().code == errc::invalid_argument);
  CHECK(report.error().text().find("3") != std::string::npos);
}

TEST_CASE("data parallel: the conformance suite, in micro-batches", "[parallel][fast]") {
  support::check_parallelism_policy([] { return parallel::data_parallel{{.micro_batches = 2}}; });
}
