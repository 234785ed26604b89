// SPDX-License-Identifier: Apache-2.0
#include <causeway/autograd/tape.hpp>

#include <causeway/kernels/backend.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace causeway::autograd {
namespace {

using cpu_tape = tape<kernels::cpu_backend>;

struct setting {
  kernels::cpu_backend backend;
  buffer_pool memory;
  cpu_tape t{backend, memory};

  tensor filled(float value, std::int64_t count = 4) {
    tensor x = t.make(dtype::f32, {count});
    for (float& v : x.span<float>()) v = value;
    return x;
  }
};

}  // namespace

TEST_CASE("tape: nodes run in reverse, each with the gradient of its own result", "[autograd][fast]") {
  setting s;
  std::string order;
  const variable x = s.t.leaf(s.filled(1.0F));
  variable y = s.t.result(s.filled(2.0F), [&order, slot = x.slot](cpu_tape& on, tensor dy) {
    order += "y" + std::to_string(static_cast<int>(dy.data<float>()[0]));
    on.contribute(slot, std::move(dy));
  });
  const variable z = s.t.result(s.filled(3.0F), [&order, slot = y.slot](cpu_tape& on, tensor dz) {
    order += "z" + std::to_string(static_cast<int>(dz.data<float>()[0]));
    on.contribute(slot, on.make(dtype::f32, {4}));
    auto target = on.target_of(slot, dtype::f32, {4});
    CHECK(target.accumulate);
    for (float& v : target.memory.span<float>()) v = 7.0F;
  });
  s.t.contribute(z.slot, s.filled(5.0F));
  s.t.backward();
  CHECK(order == "z5y7");
  CHECK(s.t.take(x.slot).data<float>()[0] == 7.0F);
}

TEST_CASE("tape: a result that nobody used runs nothing", "[autograd][fast]") {
  setting s;
  bool ran = false;
  const variable unused = s.t.result(s.filled(1.0F), [&](cpu_tape&, const tensor&) { ran = true; });
  const variable used = s.t.result(s.filled(1.0F), [](cpu_tape&, const tensor&) {});
  s.t.contribute(used.slot, s.filled(1.0F));
  s.t.backward();
  CHECK_FALSE(ran);
  CHECK(unused.wants_gradient());
}

TEST_CASE("tape: what a node saved is released when it has run", "[autograd][fast]") {
  setting s;
  std::vector<std::size_t> in_use;
  const auto record = [&](const variable& x) {
    tensor saved = s.filled(0.0F, 1000);
    return s.t.result(s.filled(0.0F), [&in_use, saved = std::move(saved), slot = x.slot](cpu_tape& on, tensor dy) {
      in_use.push_back(on.memory().in_use());
      on.contribute(slot, std::move(dy));
    });
  };
  {
    variable x = s.t.leaf(s.filled(0.0F));
    for (int i = 0; i < 3; ++i) x = record(x);
    s.t.contribute(x.slot, s.filled(1.0F));
  }
  s.t.backward();
  REQUIRE(in_use.size() == 3);
  CHECK(in_use[0] - in_use[1] >= buffer_pool::rounded(4000));
  CHECK(in_use[1] - in_use[2] >= buffer_pool::rounded(4000));
  s.t.clear();
  CHECK(s.memory.in_use() == 0);
}

TEST_CASE("tape: the first contribution is kept as it is, a shared one is copied before it changes", "[autograd][fast]") {
  setting s;
  const variable a = s.t.leaf(s.filled(0.0F));
  const variable b = s.t.leaf(s.filled(0.0F));
  tensor g = s.filled(2.0F);
  const float* memory = g.data<float>();
  s.t.contribute(a.slot, g);
  s.t.contribute(b.slot, std::move(g));
  s.t.contribute(a.slot, s.filled(3.0F));
  const tensor ga = s.t.take(a.slot);
  const tensor gb = s.t.take(b.slot);
  CHECK(ga.data<float>()[0] == 5.0F);
  CHECK(gb.data<float>()[0] == 2.0F);
  CHECK(gb.data<float>() == memory);
}

TEST_CASE("tape: contributions in bf16 add too", "[autograd][fast]") {
  kernels::use_bf16();
  setting s;
  const variable a = s.t.leaf(s.t.make(dtype::bf16, {3}));
  for (int i = 0; i < 2; ++i) {
    tensor g = s.t.make(dtype::bf16, {3});
    for (bf16& v : g.span<bf16>()) v = bf16{1.5F};
    s.t.contribute(a.slot, std::move(g));
  }
  CHECK(static_cast<float>(s.t.take(a.slot).data<bf16>()[2]) == 3.0F);
}

TEST_CASE("tape: memory that is borrowed or shared is never overwritten", "[autograd][fast]") {
  setting s;
  float numbers[4] = {1, 2, 3, 4};
  const tensor view = tensor::borrow(numbers, {4});
  const tensor copy = s.t.exclusive(view);
  CHECK(copy.data<float>() != numbers);
  CHECK(copy.data<float>()[3] == 4.0F);
  tensor own = s.filled(1.0F);
  const float* memory = own.data<float>();
  own = s.t.exclusive(std::move(own));
  CHECK(own.data<float>() == memory);
}

TEST_CASE("tape: without recording there are no slots, nodes or saved values", "[autograd][fast]") {
  setting s;
  {
    const recording_scope off{s.t, false};
    const variable y = s.t.result(s.filled(1.0F), [saved = s.filled(2.0F)](cpu_tape&, const tensor&) {});
    CHECK_FALSE(y.wants_gradient());
    CHECK_FALSE(s.t.leaf(s.filled(1.0F)).wants_gradient());
    CHECK(s.memory.in_use() == y.value.bytes() + (buffer_pool::rounded(16) - 16));
  }
  CHECK(s.t.recording());
  CHECK(s.t.position().nodes == 0);
}

TEST_CASE("tape: clear drops captures and slots", "[autograd][fast]") {
  setting s;
  const auto witness = std::make_shared<int>(1);
  static_cast<void>(s.t.result(s.filled(1.0F), [witness](cpu_tape&, const tensor&) {}));
  CHECK(witness.use_count() == 2);
  s.t.clear();
  CHECK(witness.use_count() == 1);
  CHECK(s.memory.in_use() == 0);
  CHECK(s.t.position().slots == 0);
}

TEST_CASE("tape: a gradient that nobody wants goes to memory that nobody reads", "[autograd][fast]") {
  setting s;
  const auto target = s.t.target_of(no_gradient, dtype::f32, {4});
  CHECK_FALSE(target.accumulate);
  CHECK(target.memory);
  s.t.contribute(no_gradient, s.filled(1.0F));
  CHECK_FALSE(s.t.take(no_gradient));
}

}  // namespace causeway::autograd
