// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/nadam.hpp>

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

nadam_options golden_options(double warm_up) {
  return {.beta1 = 0.9F, .beta2 = 0.95F, .weight_decay = 0.1F, .warm_up = warm_up};
}

}  // namespace

TEST_CASE("nadam: ten steps end where PyTorch's do, with every schedule of the look-ahead", "[optim][fast]") {
  for (const unsigned threads : {1U, 3U}) {
    const auto run = [&](double warm_up) { return test::golden_run(nadam{golden_options(warm_up)}, threads); };
    CHECK(test::golden_error(run(pytorch_nadam_warm_up), golden::nadam) < 1e-6);
    CHECK(test::golden_error(run(1.0), golden::nadam_half) < 1e-6);   // momentum_decay = 0
    CHECK(test::golden_error(run(0.0), golden::nadam_fixed) < 1e-6);  // momentum_decay = 1e9
    CHECK(test::golden_error(run(0.0), golden::nadam) > 1e-3);        // the schedules differ
  }
}

TEST_CASE("nadam: PyTorch's warm-up is 0.96 to the power of 0.004", "[optim][fast]") {
  CHECK(std::abs(pytorch_nadam_warm_up - std::pow(0.96, 0.004)) < 1e-11);
}

TEST_CASE("nadam: goes on from a checkpoint as if there had been none", "[optim][fast]") {
  CHECK(test::survives_a_checkpoint<nadam>(nadam_options{}));
  CHECK(test::survives_a_checkpoint<nadam>(golden_options(0.0)));
}

TEST_CASE("nadam: reset forgets, and a step leaves gradients alone", "[optim][fast]") {
  CHECK(test::reset_forgets<nadam>());
}

// With a large epsilon the second moment does not matter, and after many steps without a gradient neither do the bias
// corrections: what remains is the method's two-variable form, here with a gradient that is two steps old.
TEST_CASE("nadam: it is Nesterov's method at the look-ahead point, with a discounted, late gradient", "[optim][fast]") {
  constexpr double epsilon = 1e4, rate = 0.3, discount = 0.5, curvature = 2.0, centre = 3.0;
  constexpr std::size_t delay = 2;
  thread_pool pool;
  std::vector<float> values(1, 1.0F), gradients(1, 0.0F);
  nadam optimizer{{.beta1 = static_cast<float>(discount),
                   .epsilon = static_cast<float>(epsilon),
                   .weight_decay = 0.0F,
                   .warm_up = 0.0}};
  optimizer.reset(1);
  const auto step = [&](double gradient) {
    gradients[0] = static_cast<float>(gradient);
    optimizer.step(pool, {values, gradients, {}}, {.learning_rate = static_cast<float>(rate * epsilon)});
  };
  for (int i = 0; i < 60; ++i) step(0.0);
  REQUIRE(values[0] == 1.0F);

  double weight = 1.0, before = 1.0;
  std::vector<double> ours(delay + 1, 1.0), theirs(delay + 1, 1.0);  // look-ahead points
  const auto slope = [&](const std::vector<double>& points) {
    return curvature * (points[points.size() - 1 - delay] - centre);
  };
  for (int t = 0; t < 40; ++t) {
    step(slope(ours));
    ours.push_back(static_cast<double>(values[0]));
    const double ahead = discount * (weight - before);
    const double next = weight + ahead - rate * (1 - discount) * slope(theirs);
    before = weight, weight = next;
    theirs.push_back(weight + discount * (weight - before));
    CHECK(ours.back() == Approx(theirs.back()).epsilon(2e-3));
  }
  CHECK(std::abs(ours.back() - 1.0) > 0.5);  // it has moved
}

TEST_CASE("nadam: a large model's update is the same bits for any number of threads", "[optim][fast]") {
  CHECK(test::same_bits_for_any_threads<nadam>());
}
