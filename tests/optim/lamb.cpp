// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/lamb.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "golden/optimizers.hpp"
#include "support/catch.hpp"
#include "support/optimizer_cases.hpp"

using namespace causeway;
using namespace causeway::optim;

namespace {

/// Values of one tensor, and one step with these gradients.
std::vector<float> stepped(lamb_options o, std::vector<float> values, std::vector<float> gradients, float rate,
                           parameter_kind kind = parameter_kind::matrix) {
  thread_pool pool{1};
  const std::vector<parameter_segment> segments{{"w", kind, 1, static_cast<std::int64_t>(values.size()), 0}};
  lamb optimizer{o};
  optimizer.reset(static_cast<std::int64_t>(values.size()));
  optimizer.step(pool, {values, gradients, segments}, {.learning_rate = rate});
  return values;
}

}  // namespace

TEST_CASE("lamb: ten steps end where torch_optimizer's do, with either bias correction", "[optim][fast]") {
  for (const unsigned threads : {1U, 3U}) {
    const auto run = [&](lamb_options o) { return test::golden_run(lamb{o}, threads); };
    CHECK(test::golden_error(run({.weight_decay = 0.1F}), golden::lamb) < 1e-6);
    CHECK(test::golden_error(run({.weight_decay = 0.1F, .longest = 3.0F}), golden::lamb_clamped) < 1e-6);
    CHECK(test::golden_error(run({.weight_decay = 0.1F}), golden::lamb_clamped) > 1e-3);  // a norm is beyond 3
    CHECK(test::golden_error(run({.weight_decay = 0.1F, .correct_moments = true}), golden::lamb_moments) < 1e-6);
    CHECK(test::golden_error(run({.weight_decay = 0.1F}), golden::lamb_moments) > 1e-3);
  }
}

// The first step's m and sqrt(v) are 0.1·g and sqrt(0.001)·|g|: u has entries of one size, with the gradient's signs, and
// its norm cancels that size.
TEST_CASE("lamb: the first step is the learning rate times the tensor's norm, in the direction of the signs",
          "[optim][fast]") {
  const std::vector<float> values{3, 0, 0, 4}, gradients{1, -2, 4, -8};
  const lamb_options paper{.weight_decay = 0.0F, .correct_moments = true};
  const auto after = stepped(paper, values, gradients, 0.01F);
  for (std::size_t i = 0; i < 4; ++i) {
    const float sign = gradients[i] > 0 ? 1.0F : -1.0F;
    CHECK(after[i] == Approx(values[i] - 0.01F * 5.0F * sign / 2.0F).epsilon(1e-5));
  }
  // Corrected as a whole, the step is sqrt(1 - 0.999) / (1 - 0.9) of that.
  const auto whole = stepped({.weight_decay = 0.0F}, values, gradients, 0.01F);
  CHECK(whole[1] == Approx(0.025 * std::sqrt(0.001) / 0.1).epsilon(1e-4));
  // No tensor counts as longer than `longest`.
  const auto short_step =
      stepped({.weight_decay = 0.0F, .longest = 2.5F, .correct_moments = true}, values, gradients, 0.01F);
  CHECK(short_step[1] == Approx(0.0125F).epsilon(1e-5));
}

TEST_CASE("lamb: weight decay is a part of the update, but of matrices and tables only", "[optim][fast]") {
  const std::vector<float> values{3, 4}, none{0, 0};
  const lamb_options o{.weight_decay = 0.5F, .correct_moments = true};
  const auto after = stepped(o, values, none, 0.1F);  // u = 0.5·p: the step is lr·p, whatever the decay
  CHECK(after[0] == Approx(2.7F).epsilon(1e-6));
  CHECK(after[1] == Approx(3.6F).epsilon(1e-6));
  CHECK(stepped(o, values, none, 0.1F, parameter_kind::vector) == values);
}

TEST_CASE("lamb: a tensor of zeros, or an update of zeros, has a trust ratio of 1", "[optim][fast]") {
  const lamb_options o{.weight_decay = 0.0F, .correct_moments = true};
  const auto after = stepped(o, {0, 0}, {2, -2}, 0.1F);
  CHECK(after[0] == Approx(-0.1F).epsilon(1e-5));
  CHECK(after[1] == Approx(0.1F).epsilon(1e-5));
  CHECK(stepped(o, {0, 0}, {0, 0}, 0.1F) == std::vector<float>{0, 0});
}

TEST_CASE("lamb: goes on from a checkpoint as if there had been none", "[optim][fast]") {
  CHECK(test::survives_a_checkpoint<lamb>(lamb_options{}));
  CHECK(test::survives_a_checkpoint<lamb>(lamb_options{.correct_moments = true}));
}

TEST_CASE("lamb: reset forgets, and a step leaves gradients alone", "[optim][fast]") { CHECK(test::reset_forgets<lamb>()); }

TEST_CASE("lamb: a large model's update is the same bits for any number of threads", "[optim][fast]") {
  CHECK(test::same_bits_for_any_threads<lamb>());
}
