// SPDX-License-Identifier: Apache-2.0
#include <causeway/train/flat_model.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/comm/periodic.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/train/trainer.hpp>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/cluster.hpp"
#include "support/model_conformance.hpp"

namespace {

using causeway::flat_model;
using causeway::flat_model_options;
using causeway::parameter_kind;

// Somebody else's model: parameters that are pulled to a target, with loss 1/2 |x - t|^2.
struct pulled {
  pulled(std::size_t size, float to) : values(size, 1.0F), gradients(size), target{to} {}
  double step() {
    double loss = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      gradients[i] = values[i] - target;
      loss += 0.5 * double{gradients[i]} * double{gradients[i]};
    }
    return loss;
  }
  std::vector<float> values, gradients;
  float target;
};

flat_model model_of(pulled& p, flat_model_options options = {}) {
  return {p.values, p.gradients, [&p] { return p.step(); }, std::move(options)};
}

causeway::trainer_options slowly() {
  causeway::trainer_options options;
  options.learning_rate = causeway::optim::constant{0.25F};
  options.clip_norm = 0;
  return options;
}

const flat_model_options in_pieces{{{"a", parameter_kind::vector, 1, 3}, {"b", parameter_kind::matrix, 2, 5}}};

}  // namespace

TEST_CASE("flat model: it passes what every model must show", "[train][fast]") {
  std::vector<pulled> all(8, pulled{13, 3.0F});
  std::size_t next = 0;
  support::check_model([&] { return model_of(all[next++], in_pieces); }, causeway::own_data());
}

TEST_CASE("flat model: a step over tokens is given them, and the mean counts as often as there are tokens",
          "[train][fast]") {
  std::vector<float> values{2}, gradients{0};
  std::int64_t seen = 0;
  const auto step = [&](std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets,
                        std::int64_t sequences) {
    seen = sequences;
    gradients[0] = static_cast<float>(inputs[0] + targets[0]);
    return 5.0;
  };
  flat_model model{values, gradients, step};
  const std::vector<std::int32_t> inputs{1, 2, 3, 4}, targets{10, 20, 30, 40};
  const auto loss = model.forward_backward(inputs, targets, 2, 0.5F, 0);
  REQUIRE(loss);
  CHECK(*loss == 20);
  CHECK(seen == 2);
  CHECK(model.parameters().gradient(0)[0] == 0.5F * 4 * 11);
}

TEST_CASE("flat model: pieces stand on boundaries inside and dense outside", "[train][fast]") {
  pulled p{13, 0};
  for (std::size_t i = 0; i < 13; ++i) p.values[i] = static_cast<float>(i);
  auto model = model_of(p, in_pieces);
  CHECK(model.parameters().count() == 13);
  CHECK(model.parameters().value(1)[0] == 3);
  CHECK(model.parameters().segments()[1].rows == 2);
  model.parameters().value(1)[9] = 100;
  model.write_back();
  CHECK(p.values[12] == 100);
  CHECK(p.values[2] == 2);
}

TEST_CASE("flat model: training moves the outside buffer as the formula says", "[train][fast]") {
  pulled p{13, 3.0F};
  auto trainer =
      causeway::make_trainer(model_of(p, in_pieces), {}, slowly(), causeway::comm::every_step<>{}, causeway::optim::sgd{});
  REQUIRE(trainer.start());
  for (int i = 0; i < 5; ++i) REQUIRE(trainer.step(causeway::own_data()));
  REQUIRE(trainer.finish());
  trainer.model().write_back();
  const float expected = 3.0F - 2.0F * 0.75F * 0.75F * 0.75F * 0.75F * 0.75F;  // t + (1 - r)^5 (x - t)
  for (const float v : p.values) CHECK(v == Approx(expected));
}

TEST_CASE("flat model: peers with other data meet in the middle by local SGD", "[train][fast]") {
  std::vector<pulled> peers{pulled{13, 1.0F}, pulled{13, 3.0F}};
  support::run_cluster(2, [&](std::uint32_t peer, causeway::environment env) {
    using causeway::comm::periodic;
    auto trainer = causeway::make_trainer(model_of(peers[peer]), std::move(env), slowly(),
                                          periodic<causeway::optim::sgd>{{.local_steps = 4, .outer_learning_rate = 1.0F}},
                                          causeway::optim::sgd{});
    if (!trainer.start()) return;
    for (int i = 0; i < 40; ++i) {
      if (!trainer.step(causeway::own_data())) return;
    }
    if (trainer.finish()) trainer.model().write_back();
  });
  for (const auto& p : peers) {
    for (const float v : p.values) CHECK(v == Approx(2.0F).epsilon(1e-4));
  }
}

TEST_CASE("flat model: evaluations take the second function, and the step where there is none", "[train][fast]") {
  std::vector<float> values{2}, gradients{0};
  int steps = 0;
  const auto step = [&] { return ++steps, 5.0; };
  flat_model alone{values, gradients, step};
  REQUIRE(alone.evaluate(causeway::own_data().inputs, causeway::own_data().targets, 1));
  CHECK(steps == 1);
  flat_model both{values, gradients, step, [] { return 7.0; }};
  CHECK(*both.evaluate(causeway::own_data().inputs, causeway::own_data().targets, 1) == 7);
  CHECK(steps == 1);
}

TEST_CASE("flat model: what a step fails with is what the trainer's step fails with", "[train][fast]") {
  std::vector<float> values(4), gradients(4);
  const auto step = [] {
    return causeway::result<double>{causeway::fail(causeway::errc::out_of_memory, "my model", "has no room")};
  };
  auto trainer = causeway::make_trainer(flat_model{values, gradients, step}, {}, slowly(), causeway::comm::every_step<>{});
  REQUIRE(trainer.start());
  const auto outcome = trainer.step(causeway::own_data());
  REQUIRE(!outcome);
  CHECK(outcome.error().code == causeway::errc::out_of_memory);
}
