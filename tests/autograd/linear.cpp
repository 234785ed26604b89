// SPDX-License-Identifier: Apache-2.0
#include <causeway/autograd/linear.hpp>

#include <causeway/autograd/ops.hpp>

#include <cstddef>
#include <vector>

#include "op_checker.hpp"
#include "support/catch.hpp"

namespace causeway::autograd {

using testing::cpu_tape;
using testing::op_checker;
using variables = std::vector<variable>;

TEST_CASE("linear: gradient equals finite differences", "[autograd][fast]") {
  op_checker c;
  c.input({11, 10});
  auto& weight = c.parameter(7, 10);
  auto& bias = c.parameter(1, 7);
  SECTION("with bias") {
    c.compute([&](cpu_tape& t, variables& v) { return linear(t, v[0], weight, bias); });
    c.check();
  }
  SECTION("without bias") {
    c.compute([&](cpu_tape& t, variables& v) { return linear(t, v[0], weight); });
    c.run();
    for (const float g : c.parameter_gradient(1)) CHECK(g == 0.0F);
    c.check();
  }
}

TEST_CASE("feed-forward: gradient equals finite differences", "[autograd][fast]") {
  op_checker c;
  c.input({9, 12}, 0.5F);
  c.input({9, 10});
  auto& up = c.parameter(14, 12, 0.5F);
  auto& up_bias = c.parameter(1, 14);
  auto& down = c.parameter(10, 14, 0.5F);
  auto& down_bias = c.parameter(1, 10);
  SECTION("into the residual stream") {
    c.compute([&](cpu_tape& t, variables& v) { return feed_forward(t, v[0], up, up_bias, down, down_bias, v[1]); });
  }
  SECTION("without a residual, nor biases") {
    c.compute([&](cpu_tape& t, variables& v) { return add(t, feed_forward(t, v[0], up, {}, down, {}), v[1]); });
  }
  c.check();
}

TEST_CASE("feed-forward: is the maps and GELU one after another", "[autograd][fast]") {
  const auto gradients = [](bool fused, bool deferred) {
    op_checker c;
    c.input({9, 12});
    auto& up = c.parameter(24, 12);
    auto& up_bias = c.parameter(1, 24);
    auto& down = c.parameter(10, 24);
    auto& down_bias = c.parameter(1, 10);
    c.compute([&, fused, deferred](cpu_tape& t, variables& v) {
      t.defer_weights(deferred);
      if (fused) return feed_forward(t, v[0], up, up_bias, down, down_bias);
      return linear_to_residual(t, gelu(t, linear(t, v[0], up, up_bias)), down, down_bias);
    });
    c.run();
    const auto g = c.input_gradient(0);
    return std::vector<float>{g.begin(), g.end()};
  };
  const auto fused = gradients(true, false), apart = gradients(false, false);
  CHECK(gradients(true, true) == fused);
  for (std::size_t i = 0; i < fused.size(); ++i) CHECK(fused[i] == Approx(apart[i]).epsilon(1e-5).margin(1e-6));
}

TEST_CASE("linear into the residual stream: gradient equals finite differences", "[autograd][fast]") {
  op_checker c;
  c.input({8, 6});
  c.input({8, 10});
  auto& weight = c.parameter(6, 10);
  auto& bias = c.parameter(1, 6);
  c.compute([&](cpu_tape& t, variables& v) { return linear_to_residual(t, v[1], weight, bias, v[0]); });
  c.check();
}

TEST_CASE("linear: of a frozen weight and bias the input's gradient has the bits of one that is trained",
          "[autograd][fast]") {
  const auto input_gradient = [](bool frozen, bool deferred) {
    op_checker c;
    c.input({9, 12});
    auto& weight = c.parameter(14, 12);
    auto& bias = c.parameter(1, 14);
    c.compute([&, frozen, deferred](cpu_tape& t, variables& v) {
      t.defer_weights(deferred);
      if (frozen) weight.gradient = bias.gradient = nullptr;
      return linear(t, v[0], weight, bias);
    });
    c.run();
    const auto g = c.input_gradient(0);
    return std::vector<float>{g.begin(), g.end()};
  };
  const auto want = input_gradient(false, false);
  CHECK(input_gradient(true, false) == want);
  CHECK(input_gradient(true, true) == want);
}

TEST_CASE("linear: an input used twice gets both gradients", "[autograd][fast]") {
  op_checker c;
  c.input({8, 10});
  auto& a = c.parameter(10, 10);
  auto& b = c.parameter(10, 10);
  c.compute([&](cpu_tape& t, variables& v) { return linear_to_residual(t, v[0], a, {}, linear(t, v[0], b)); });
  c.check();
}

TEST_CASE("linear: a weight used twice, and twice run, adds up", "[autograd][fast]") {
  op_checker c;
  c.input({8, 10});
  auto& w = c.parameter(10, 10, 0.3F);
  c.compute([&](cpu_tape& t, variables& v) { return linear(t, linear(t, v[0], w), w); });
  c.check();
}

TEST_CASE("linear: deferred weight gradients come later with the same bits, after the input's", "[autograd][fast]") {
  kernels::cpu_backend backend{1};
  buffer_pool memory;
  std::vector<float> w(70), b(7), x(110), dy(77);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13) - 6.0F;
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 7) * 0.25F;
  for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<float>(i % 5) - 2.0F;
  const auto run = [&](bool defer, std::vector<float>& before, std::vector<float>& dw, std::vector<float>& dx) {
    cpu_tape t{backend, memory};
    dw.assign(70, 0.5F);
    std::vector<float> db(7);
    const parameter weight{w.data(), nullptr, dw.data(), 7, 10};
    const parameter bias{b.data(), nullptr, db.data(), 1, 7};
    const variable in = t.leaf(tensor::borrow(x.data(), {11, 10}));
    const variable y = linear(t, in, weight, bias);
    t.defer_weights(defer);
    t.contribute(y.slot, tensor::borrow(dy.data(), {11, 7}));
    t.backward();
    const tensor d = t.take(in.slot);
    dx.assign(d.data<float>(), d.data<float>() + 110);
    before = dw;
    t.run_deferred();
  };
  std::vector<float> before, now, dx, before_deferred, later, dx_deferred;
  run(false, before, now, dx);
  run(true, before_deferred, later, dx_deferred);
  CHECK((dx == dx_deferred));
  CHECK((before == now));
  CHECK((before_deferred == std::vector<float>(70, 0.5F)));
  CHECK((later == now));
}

TEST_CASE("linear maps in bf16 agree with f32 from the same numbers", "[autograd][fast]") {
  op_checker c;
  c.input({24, 48});
  auto& up = c.parameter(64, 48, 0.15F);
  auto& up_bias = c.parameter(1, 64);
  auto& down = c.parameter(48, 64, 0.15F);
  auto& down_bias = c.parameter(1, 48);
  SECTION("plain") {
    c.compute([&](cpu_tape& t, variables& v) { return linear(t, linear(t, v[0], up, up_bias), down, down_bias); });
    c.compare_types();
  }
  SECTION("GELU, then the residual stream") {
    c.compute([&](cpu_tape& t, variables& v) { return feed_forward(t, v[0], up, up_bias, down, down_bias); });
    c.compare_types();
  }
}

TEST_CASE("linear: outside recording nothing is kept", "[autograd][fast]") {
  op_checker c;
  c.input({8, 10});
  auto& up = c.parameter(40, 10);
  auto& down = c.parameter(30, 40);
  c.compute([&](cpu_tape& t, variables& v) { return feed_forward(t, v[0], up, {}, down, {}); });
  c.loss();
  // The result, and GELU's or later the weights of the loss; the argument of GELU is not kept.
  CHECK(c.memory().peak_in_use() == buffer_pool::rounded(8 * 30 * 4) + buffer_pool::rounded(8 * 40 * 4));
}

}  // namespace causeway::autograd
