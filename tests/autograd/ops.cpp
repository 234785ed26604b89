// SPDX-License-Identifier: Apache-2.0
#include <causeway/autograd/ops.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "op_checker.hpp"
#include "support/catch.hpp"

namespace causeway::autograd {

using testing::cpu_tape;
using testing::op_checker;
using variables = std::vector<variable>;

TEST_CASE("embedding: gradient equals finite differences, repeated tokens add up", "[autograd][fast]") {
  op_checker c;
  const std::array<std::int32_t, 10> tokens{3, 1, 3, 3, 0, 6, 1, 2, 2, 3};
  auto& table = c.parameter(7, 12);
  auto& positions = c.parameter(8, 12);  // longer than the sequences
  c.compute([&](cpu_tape& t, variables&) { return embedding(t, tokens, table, positions, 2); });
  c.check();
}

TEST_CASE("embedding: without positions", "[autograd][fast]") {
  op_checker c;
  const std::array<std::int32_t, 4> tokens{1, 1, 0, 4};
  auto& table = c.parameter(5, 6);
  c.compute([&](cpu_tape& t, variables&) { return embedding(t, tokens, table, {}, 1); });
  c.check();
}

TEST_CASE("layer norm: gradient equals finite differences", "[autograd][fast]") {
  op_checker c;
  c.input({9, 20});
  auto& gain = c.parameter(1, 20, 0.3F, 1.0F);
  auto& bias = c.parameter(1, 20);
  c.compute([&](cpu_tape& t, variables& v) { return layer_norm(t, v[0], gain, bias, 1e-5F); });
  c.check();
}

TEST_CASE("RMS norm: gradient equals finite differences", "[autograd][fast]") {
  op_checker c;
  c.input({9, 20});
  auto& gain = c.parameter(1, 20, 0.3F, 1.0F);
  c.compute([&](cpu_tape& t, variables& v) { return rms_norm(t, v[0], gain, 1e-5F); });
  c.check();
}

TEST_CASE("norms: adding into a gradient that is already there equals finite differences", "[autograd][fast]") {
  op_checker c;
  c.input({6, 16});
  auto& gain = c.parameter(1, 16, 0.3F, 1.0F);
  auto& bias = c.parameter(1, 16);
  c.compute([&](cpu_tape& t, variables& v) {
    const auto x = add(t, v[0], layer_norm(t, v[0], gain, bias, 1e-5F));
    return add(t, rms_norm(t, x, gain, 1e-5F), x);
  });
  c.check();
}

TEST_CASE("gelu: gradient equals finite differences", "[autograd][fast]") {
  op_checker c;
  c.input({7, 13}, 1.5F);
  c.compute([](cpu_tape& t, variables& v) { return gelu(t, v[0]); });
  c.check();
}

TEST_CASE("swiglu: gradient equals finite differences", "[autograd][fast]") {
  op_checker c;
  c.input({5, 2 * 11});
  c.compute([](cpu_tape& t, variables& v) { return swiglu(t, v[0]); });
  c.check();
}

TEST_CASE("add: one variable used three times gets the sum of three gradients", "[autograd][fast]") {
  op_checker c;
  c.input({4, 5});
  c.compute([](cpu_tape& t, variables& v) { return add(t, add(t, v[0], v[0]), v[0]); });
  c.check();
  const auto three = c.input_gradient(0);
  op_checker once;
  once.input({4, 5});
  once.compute([](cpu_tape& t, variables& v) { return add(t, v[0], {t.exclusive(v[0].value), no_gradient}); });
  once.run();
  for (std::size_t i = 0; i < three.size(); ++i) CHECK(three[i] == Approx(3.0F * once.input_gradient(0)[i]));
}

TEST_CASE("dropout: gradient equals finite differences and uses the forward's mask", "[autograd][fast]") {
  op_checker c;
  c.input({30, 40});
  c.compute([](cpu_tape& t, variables& v) { return dropout(t, v[0], 0.4F, 5, 6); });
  c.check();
  std::size_t dropped = 0;
  for (std::size_t i = 0; i < c.result().size(); ++i) {
    const bool zero = c.result()[i] == 0.0F;
    CHECK(zero == (c.input_gradient(0)[i] == 0.0F));
    dropped += zero ? 1 : 0;
  }
  CHECK(dropped > 400);  // 480 of 1200 expected
  CHECK(dropped < 560);
}

TEST_CASE("dropout: a rate of zero is the identity and records nothing", "[autograd][fast]") {
  kernels::cpu_backend backend;
  buffer_pool memory;
  cpu_tape t{backend, memory};
  const variable x = t.leaf(t.make(dtype::f32, {4}));
  const auto before = t.position();
  const variable y = dropout(t, x, 0.0F, 1, 1);
  CHECK(y.slot == x.slot);
  CHECK(t.position().nodes == before.nodes);
}

TEST_CASE("rotary: gradient equals finite differences, values are left alone", "[autograd][fast]") {
  const head_layout layout{2, 5, 3, 1, 8};
  const kernels::rotary_table table{5, 8};
  op_checker c;
  c.input({10, layout.row()});
  c.compute([&](cpu_tape& t, variables& v) { return rotary(t, v[0], table, layout); });
  c.check();
  const std::size_t first_value = 4 * 8;  // after three query heads and one key head
  for (std::size_t row = 1; row < 5; ++row) {
    const std::size_t at = row * static_cast<std::size_t>(layout.row());
    CHECK(c.result()[at] != c.result()[at + first_value]);
  }
}

TEST_CASE("attention: gradient equals finite differences", "[autograd][fast]") {
  const auto kv_heads = GENERATE(4, 2, 1);
  CAPTURE(kv_heads);
  const head_layout layout{2, 7, 4, kv_heads, 6};
  op_checker c;
  c.input({14, layout.row()});
  c.compute([&](cpu_tape& t, variables& v) { return attention(t, v[0], layout); });
  c.check();
}

TEST_CASE("cross-entropy: gradient equals finite differences, ignored rows get none", "[autograd][fast]") {
  op_checker c;
  c.input({6, 10});
  auto& weight = c.parameter(17, 10);
  const std::array<std::int32_t, 6> targets{4, 0, -1, 16, 4, 9};
  // grad_scale is 1 here, so that the gradient is that of the returned sum.
  c.compute_loss([&](cpu_tape& t, variables& v) { return cross_entropy(t, v[0], weight, targets, 1.0F); });
  c.check();
  for (std::size_t i = 20; i < 30; ++i) CHECK(c.input_gradient(0)[i] == 0.0F);
}

TEST_CASE("cross-entropy: grad_scale multiplies gradients, not the loss", "[autograd][fast]") {
  const std::array<std::int32_t, 3> targets{1, 2, 0};
  const auto run = [&](float scale) {
    op_checker c;
    c.input({3, 8});
    auto& weight = c.parameter(4, 8);
    c.compute_loss([&](cpu_tape& t, variables& v) { return cross_entropy(t, v[0], weight, targets, scale); });
    const double loss = c.run();
    return std::pair{loss, static_cast<double>(c.input_gradient(0)[3])};
  };
  const auto [loss, gradient] = run(1.0F);
  const auto [same, halved] = run(0.5F);
  CHECK(same == loss);
  CHECK(halved == Approx(0.5 * gradient));
}

TEST_CASE("ops in bf16 agree with f32 from the same numbers", "[autograd][fast]") {
  const head_layout layout{2, 9, 4, 2, 16};
  const kernels::rotary_table table{9, 16};
  SECTION("gelu") {
    op_checker c;
    c.input({20, 33});
    c.compute([](cpu_tape& t, variables& v) { return gelu(t, v[0]); });
    c.compare_types();
  }
  SECTION("swiglu") {
    op_checker c;
    c.input({20, 66});
    c.compute([](cpu_tape& t, variables& v) { return swiglu(t, v[0]); });
    c.compare_types();
  }
  SECTION("rotary and attention") {
    op_checker c;
    c.input({18, layout.row()});
    c.compute([&](cpu_tape& t, variables& v) { return attention(t, rotary(t, v[0], table, layout), layout); });
    c.compare_types();
  }
  SECTION("dropout") {
    op_checker c;
    c.input({20, 33});
    c.compute([](cpu_tape& t, variables& v) { return dropout(t, v[0], 0.3F, 1, 2); });
    c.compare_types();
  }
  SECTION("cross-entropy") {
    op_checker c;
    c.input({12, 32});
    auto& weight = c.parameter(50, 32, 0.2F);
    const std::array<std::int32_t, 12> targets{4, 0, -1, 16, 4, 9, 49, 1, 2, 3, 4, 5};
    c.compute_loss([&](cpu_tape& t, variables& v) { return cross_entropy(t, v[0], weight, targets, 0.1F); });
    c.compare_types();
  }
}

TEST_CASE("norms in bf16: only the output is rounded", "[autograd][fast]") {
  const auto run = [](dtype out) {
    op_checker c;
    c.input({8, 32});
    auto& gain = c.parameter(1, 32, 0.3F, 1.0F);
    auto& bias = c.parameter(1, 32);
    auto& weight = c.parameter(16, 32);
    c.compute([&](cpu_tape& t, variables& v) {
      return add(t, linear_to_residual(t, layer_norm(t, v[0], gain, bias, 1e-5F, out), weight),
                 linear_to_residual(t, rms_norm(t, v[0], gain, 1e-5F, out), weight));
    });
    c.run();
    return std::vector<float>(c.input_gradient(0).begin(), c.input_gradient(0).end());
  };
  const auto expected = run(dtype::f32);
  kernels::use_bf16();
  const auto actual = run(dtype::bf16);
  double largest = 0.0;
  double difference = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
    difference = std::max(difference, std::abs(static_cast<double>(expected[i]) - static_cast<double>(actual[i])));
  }
  CHECK(difference > 0.0);
  CHECK(difference < 0.02 * largest);
}

}  // namespace causeway::autograd
