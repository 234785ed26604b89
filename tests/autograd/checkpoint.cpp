// SPDX-License-Identifier: Apache-2.0
#include <causeway/autograd/checkpoint.hpp>
#include <causeway/autograd/ops.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "op_checker.hpp"
#include "support/catch.hpp"

namespace causeway::autograd {
namespace {

using testing::cpu_tape;
using testing::op_checker;
using variables = std::vector<variable>;

struct outcome {
  double loss = 0.0;
  std::vector<std::vector<float>> numbers;
  std::size_t peak = 0;
};

// Three blocks x + dropout(W·gelu(x)), plainly or with each recomputed, alone or nested in one more checkpoint.
outcome run(bool recompute, bool nested) {
  op_checker c;
  c.input({64, 32});
  std::vector<parameter*> weights;
  for (int i = 0; i < 3; ++i) weights.push_back(&c.parameter(32, 32, 0.2F));
  const auto block = [&weights](std::size_t i) {
    return [&w = *weights[i], i](cpu_tape& t, const variable& x) {
      const variable h = gelu(t, gelu(t, x));
      return add(t, x, dropout(t, linear(t, h, w), 0.3F, 7, i));
    };
  };
  const auto all = [&, recompute](cpu_tape& t, const variable& x) {
    variable y = x;
    for (std::size_t i = 0; i < 3; ++i) y = recompute ? checkpoint(t, y, block(i)) : block(i)(t, y);
    return y;
  };
  c.compute([&](cpu_tape& t, variables& v) { return nested ? checkpoint(t, v[0], all) : all(t, v[0]); });
  outcome o;
  o.loss = c.run();
  const auto keep = [&o](std::span<const float> n) { o.numbers.emplace_back(n.begin(), n.end()); };
  keep(c.input_gradient(0));
  for (std::size_t i = 0; i < 3; ++i) keep(c.parameter_gradient(i));
  o.peak = c.memory().peak_in_use();
  return o;
}

}  // namespace

TEST_CASE("checkpoint: loss and gradients are bit-equal to those without, dropout included", "[autograd][fast]") {
  const outcome plain = run(false, false);
  const outcome again = run(true, false);
  const outcome nested = run(true, true);
  CHECK(again.loss == plain.loss);
  CHECK(again.numbers == plain.numbers);
  CHECK(nested.loss == plain.loss);
  CHECK(nested.numbers == plain.numbers);
  CHECK(std::any_of(plain.numbers[1].begin(), plain.numbers[1].end(), [](float g) { return g != 0.0F; }));
}

TEST_CASE("checkpoint: keeps less memory", "[autograd][fast]") { CHECK(run(true, false).peak < run(false, false).peak); }

TEST_CASE("checkpoint: gradient equals finite differences", "[autograd][fast]") {
  op_checker c;
  c.input({6, 10});
  auto& w = c.parameter(10, 10);
  c.compute([&](cpu_tape& t, variables& v) {
    return checkpoint(t, v[0],
                      [&w](cpu_tape& on, const variable& x) { return linear_to_residual(on, gelu(on, x), w, {}, x); });
  });
  c.check();
}

TEST_CASE("checkpoint: without recording it is the block itself", "[autograd][fast]") {
  op_checker c;
  c.input({6, 10});
  int runs = 0;
  c.compute([&runs](cpu_tape& t, variables& v) {
    return checkpoint(t, v[0], [&runs](cpu_tape& on, const variable& x) {
      ++runs;
      return gelu(on, x);
    });
  });
  c.loss();
  CHECK(runs == 1);
  c.run();
  CHECK(runs == 3);
}

}  // namespace causeway::autograd
