// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_MODEL_CONFORMANCE_HPP
#define CAUSEWAY_TESTS_SUPPORT_MODEL_CONFORMANCE_HPP

// What every model must show, whoever wrote it:
// - two of them, made alike, give the same bits;
// - gradients are added to what is there, and `scale` scales them;
// - they are the gradients of the loss: a small step along them changes it by what they say;
// - an evaluation gives the loss of a training pass without dropout, and leaves gradients alone;
// - parameters that were written from outside are those that count, and the model may be moved.
// Use, from a test case: `support::check_model([] { return my_model{...}; }, {inputs, targets, sequences});`, with dropout
// off and parameters that are not at a minimum.

#include <causeway/tensor/batch.hpp>
#include <causeway/train/model.hpp>

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace support {

struct model_pass {
  double loss = 0;
  std::vector<float> gradients;
};

template <causeway::Model M>
model_pass pass_of(M& model, const causeway::batch& b, float scale = 1) {
  const auto loss = model.forward_backward(b.inputs, b.targets, b.sequences, scale, 1);
  REQUIRE(loss);
  const auto g = model.parameters().gradients();
  return {*loss, {g.begin(), g.end()}};
}

template <causeway::Model M>
double loss_of(M& model, const causeway::batch& b) {
  const auto loss = model.evaluate(b.inputs, b.targets, b.sequences);
  REQUIRE(loss);
  return *loss;
}

template <class Make>
void check_gradients_are_those_of_the_loss(Make make, const causeway::batch& b) {
  auto model = make();
  const std::vector<float> gradients = pass_of(model, b).gradients;
  double squares = 0;
  for (const float g : gradients) squares += double{g} * double{g};
  REQUIRE(squares > 0);
  const double step = 1e-3 * loss_of(model, b) / squares;  // the loss falls by a thousandth of itself
  const auto shifted = [&](double by) {
    auto other = make();
    const auto values = other.parameters().values();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += static_cast<float>(by * double{gradients[i]});
    other.parameters().touch();
    return loss_of(other, b);
  };
  CHECK((shifted(step) - shifted(-step)) / (2 * step) == Approx(squares).epsilon(0.02));
}

/// Precondition: one thread, or a model whose bits do not depend on threads.
template <class Make>
void check_model(Make make, const causeway::batch& b) {
  auto model = make();
  auto twin = make();
  CHECK(model.config_hash() == twin.config_hash());
  const double alone = loss_of(model, b);
  for (const float g : model.parameters().gradients()) REQUIRE(g == 0);  // an evaluation leaves them alone
  const model_pass first = pass_of(model, b);
  CHECK(first.loss == Approx(alone).epsilon(1e-5));
  const model_pass same = pass_of(twin, b);
  CHECK(same.loss == first.loss);
  CHECK(same.gradients == first.gradients);

  auto moved = std::move(twin);
  const std::vector<float> twice = pass_of(moved, b, 0.5F).gradients;  // added to those that moved with it
  for (std::size_t i = 0; i < twice.size(); ++i) {
    REQUIRE(twice[i] == Approx(1.5 * double{first.gradients[i]}).epsilon(1e-4).margin(1e-7));
  }
  check_gradients_are_those_of_the_loss(make, b);
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_MODEL_CONFORMANCE_HPP
