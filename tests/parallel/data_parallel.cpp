// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/data_parallel.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/train/trainer.hpp>

#include "support/catch.hpp"
#include "support/conformance.hpp"
#include "support/models.hpp"
#include "support/pipelines.hpp"
#include "support/quadratic.hpp"

using namespace causeway;

namespace {

auto trained(std::int64_t micro_batches) {
  trainer_options options;
  options.learning_rate = optim::constant{0.25F};
  options.clip_norm = 0;
  auto t = make_trainer(support::test_model{support::quadratic{}}, environment{}, options, comm::every_step<>{},
                        optim::sgd{}, parallel::data_parallel{{.micro_batches = micro_batches}});
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

nn::gpt four_sequences_gpt() {
  auto model = nn::gpt::create(support::small_gpt(1), kernels::cpu_backend{1});
  REQUIRE(model);
  return std::move(*model);
}

/// The gradient that one step of four sequences leaves behind.
std::vector<float> gradient_of_step(parallel::data_parallel_options options, const support::token_batch& all) {
  trainer_options steps;
  steps.clip_norm = 0;
  auto t = make_trainer(four_sequences_gpt(), environment{}, steps, comm::every_step<>{}, optim::sgd{},
                        parallel::data_parallel{options});
  REQUIRE(t.start());
  REQUIRE(t.step({all.inputs, all.targets, 4}));
  const auto g = t.model().parameters().gradients();
  return {g.begin(), g.end()};
}

/// One that others compute with: what they have is as much as is here.
class computed_twice : public support::quadratic {
 public:
  computed_twice() : quadratic{37} {}
  result<double> complete_gradients(double loss) {
    ++completed;
    for (float& g : parameters().gradients()) g *= 2;
    return 2 * loss;
  }
  int completed = 0;
};

}  // namespace

TEST_CASE("data parallel: micro-batches that are added apart have the bits of as many machines", "[parallel][fast]") {
  const support::token_batch all{0, 0, 4};
  std::vector<float> expected;
  for (std::size_t half = 0; half < 2; ++half) {
    auto alone = four_sequences_gpt();
    auto& store = alone.parameters();
    std::fill(store.gradients().begin(), store.gradients().end(), 0.0F);
    const std::span inputs{all.inputs}, targets{all.targets};
    REQUIRE(alone.forward_backward(inputs.subspan(16 * half, 16), targets.subspan(16 * half, 16), 2, 1.0F / 32, 0));
    const auto g = store.gradients();
    expected.resize(g.size());
    for (std::size_t i = 0; i < g.size(); ++i) expected[i] += g[i];
  }
  CHECK((gradient_of_step({.micro_batches = 2, .added_apart = true}, all) == expected));
  CHECK((gradient_of_step({.micro_batches = 2}, all) != expected));  // sums that went on in another order
}

TEST_CASE("data parallel: a model that others compute with is completed once a step", "[parallel][fast]") {
  const auto tokens = support::tokens_of(0, 0, 8);
  const auto step = [&](auto model) {
    trainer_options options;
    options.learning_rate = optim::constant{0.25F};
    options.clip_norm = 0;
    auto t = make_trainer(std::move(model), environment{}, options, comm::every_step<>{}, optim::sgd{},
                          parallel::data_parallel{{.micro_batches = 2}});
    REQUIRE(t.start());
    auto report = t.step({tokens, tokens, 4});
    REQUIRE(report);
    return std::pair{report->loss, std::move(t)};
  };
  auto [loss, one] = step(support::quadratic{});
  auto [twice, two] = step(computed_twice{});
  CHECK(two.model().completed == 1);
  CHECK(twice == 2 * loss);
  const auto g = one.model().parameters().gradients(), h = two.model().parameters().gradients();
  for (std::size_t i = 0; i < g.size(); ++i) CHECK(h[i] == 2 * g[i]);
}

TEST_CASE("data parallel: micro-batches give the gradient of the whole batch", "[parallel][fast]") {
  const auto whole = trained(1);
  for (const std::int64_t pieces : {2, 4}) {
    const auto cut = trained(pieces);
    CHECK(cut.first == Approx(whole.first).epsilon(1e-9));
    for (std::size_t i = 0; i < whole.second.size(); ++i) CHECK(cut.second[i] == Approx(whole.second[i]).margin(1e-6));
  }
}

TEST_CASE("data parallel: a batch that cannot be cut is an error with a remedy", "[parallel][fast]") {
  auto t = make_trainer(support::test_model{support::quadratic{}}, environment{}, {},
                        parallel::data_parallel{{.micro_batches = 3}});
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
