// SPDX-License-Identifier: Apache-2.0
#include <causeway/autograd/prompts.hpp>

#include <causeway/autograd/linear.hpp>

#include <cstddef>
#include <vector>

#include "op_checker.hpp"
#include "support/catch.hpp"

namespace causeway::autograd {

using testing::cpu_tape;
using testing::op_checker;
using variables = std::vector<variable>;

TEST_CASE("prompts in front: each sequence begins with them, and gradients equal finite differences", "[autograd][fast]") {
  op_checker c;
  c.input({6, 5});
  auto& prompts = c.parameter(2, 5);
  c.compute([&](cpu_tape& t, variables& v) {
    const auto y = prepend_prompts(t, v[0], prompts, 3);
    CHECK(y.value.shape() == tensor_shape{12, 5});
    for (std::int64_t s = 0; s < 3; ++s) {
      CHECK(y.value.data<float>()[s * 20 + 7] == prompts.value[7]);
      CHECK(y.value.data<float>()[s * 20 + 10] == v[0].value.data<float>()[s * 10]);
    }
    return y;
  });
  c.check();
}

TEST_CASE("prompts added: to the first rows of each sequence, and gradients equal finite differences", "[autograd][fast]") {
  op_checker c;
  c.input({6, 5});
  auto& prompts = c.parameter(2, 5);
  c.compute([&](cpu_tape& t, variables& v) {
    const auto y = add_prompts(t, v[0], prompts, 2);
    for (std::int64_t i = 0; i < 30; ++i) {
      const float added = i % 15 < 10 ? prompts.value[i % 15] : 0.0F;
      CHECK(y.value.data<float>()[i] == v[0].value.data<float>()[i] + added);
    }
    return y;
  });
  c.check();
}

TEST_CASE("prompts dropped: the rows behind them are left, and gradients equal finite differences", "[autograd][fast]") {
  op_checker c;
  c.input({6, 5});
  c.compute([&](cpu_tape& t, variables& v) {
    const auto y = drop_prompts(t, v[0], 1, 2);
    CHECK(y.value.shape() == tensor_shape{4, 5});
    CHECK(y.value.data<float>()[10] == v[0].value.data<float>()[20]);
    return y;
  });
  c.check();
}

TEST_CASE("prompts: an input whose gradient nobody wants, and prompts that are frozen, get none", "[autograd][fast]") {
  kernels::cpu_backend backend;
  buffer_pool memory;
  cpu_tape t{backend, memory};
  std::vector<float> values(10, 1.0F), gradient(10, 0.0F), rows(20, 2.0F);
  const parameter trained{values.data(), nullptr, gradient.data(), 2, 5}, frozen{values.data(), nullptr, nullptr, 2, 5};
  const variable x{tensor::borrow(rows.data(), {4, 5})};
  const auto y = add_prompts(t, prepend_prompts(t, x, trained, 2), frozen, 2);
  tensor dy = t.make(dtype::f32, y.value.shape());
  std::fill_n(dy.data<float>(), dy.count(), 1.0F);
  t.contribute(y.slot, std::move(dy));
  t.backward();
  CHECK(gradient == std::vector<float>(10, 2.0F));  // of two sequences
}

}  // namespace causeway::autograd
