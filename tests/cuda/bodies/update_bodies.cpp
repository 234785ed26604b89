// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/bodies/update_bodies.hpp>

#include <causeway/kernels/convert.hpp>
#include <causeway/kernels/elementwise.hpp>

#include "cuda/body_support.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <cstdint>
#include <vector>

namespace {

using namespace causeway;
using causeway_test::differing;
using causeway_test::numbers;

constexpr std::int64_t count = 4 * 251 + 1;

/// What the CPU and the body make of the same state.
struct state {
  std::vector<float> p = numbers(count, 1), g = numbers(count, 2, 0.1F), m = numbers(count, 3, 0.1F),
                     v = numbers(count, 4, 0.01F);
  state() {
    for (float& e : v) e *= e;  // second moments are not negative
  }
};

std::size_t differing_states(const state& a, const state& b) {
  return differing(a.p, b.p) + differing(a.m, b.m) + differing(a.v, b.v);
}

}  // namespace

TEST_CASE("cuda updates: ten steps of AdamW are the CPU's to the bit", "[cuda][fast]") {
  thread_pool pool{1};
  state cpu, body;
  std::vector<bf16> expected(cpu.p.size()), copy(cpu.p.size());
  for (int step = 1; step <= 10; ++step) {
    kernels::adamw_coefficients c{.weight_decay = 0.1F, .gradient_scale = 0.37F};
    c.bias_correction1 = 1.0F - std::pow(c.beta1, static_cast<float>(step));
    c.bias_correction2 = 1.0F - std::pow(c.beta2, static_cast<float>(step));
    kernels::adamw_update(cpu.p.data(), cpu.g.data(), cpu.m.data(), cpu.v.data(), count, c);
    cuda::run_here(cuda::adamw_body{body.p.data(), body.g.data(), body.m.data(), body.v.data(), c, copy.data(), nullptr},
                   count);
    REQUIRE(differing_states(cpu, body) == 0);
  }
  kernels::convert(pool, cpu.p.data(), expected.data(), count);
  CHECK(differing(copy, expected) == 0);
  CHECK(differing(cpu.p, state{}.p) > count / 2);
}

TEST_CASE("cuda updates: AdamW whose decay ends and starts again is AdamW piece by piece", "[cuda][fast]") {
  const std::vector<std::int64_t> turns{4, 8, 40, 400, 404, 1000};  // counted from 4 elements before
  const kernels::adamw_coefficients decayed{.weight_decay = 0.1F}, plain{};
  state expected, got;
  const auto piece = [&](std::int64_t begin, std::int64_t end, const kernels::adamw_coefficients& c) {
    kernels::adamw_update(expected.p.data() + begin, expected.g.data() + begin, expected.m.data() + begin,
                          expected.v.data() + begin, end - begin, c);
  };
  piece(0, 4, plain), piece(4, 36, decayed), piece(36, 396, plain), piece(396, 400, decayed);
  piece(400, 996, plain), piece(996, count, decayed);
  const cuda::adamw_body update{got.p.data(), got.g.data(), got.m.data(), got.v.data(), decayed};
  cuda::run_here(cuda::turning_adamw_body{update, cuda::decay_turns{turns, 4}}, count);
  CHECK(differing_states(expected, got) == 0);
}

TEST_CASE("cuda updates: AdamW takes a factor from memory, as if it were among the coefficients", "[cuda][fast]") {
  state expected, got;
  const float clip = 0.25F;
  kernels::adamw_coefficients c{.gradient_scale = 0.5F * clip};
  cuda::run_here(cuda::adamw_body{expected.p.data(), expected.g.data(), expected.m.data(), expected.v.data(), c}, count);
  c.gradient_scale = 0.5F;
  cuda::run_here(cuda::adamw_body{got.p.data(), got.g.data(), got.m.data(), got.v.data(), c, nullptr, &clip}, count);
  CHECK(differing_states(expected, got) == 0);
}

TEST_CASE("cuda updates: SGD, momentum and Nesterov are the CPU's to the bit, with and without decay", "[cuda][fast]") {
  for (const float decay : {0.0F, 0.01F}) {
    const kernels::sgd_coefficients c{
        .learning_rate = 0.7F, .momentum = 0.9F, .weight_decay = decay, .gradient_scale = 1.3F};
    state cpu, body;
    for (int step = 0; step < 3; ++step) {
      kernels::nesterov_update(cpu.p.data(), cpu.g.data(), cpu.m.data(), count, c);
      kernels::momentum_update(cpu.v.data(), cpu.g.data(), cpu.m.data(), count, c);
      kernels::sgd_update(cpu.p.data(), cpu.g.data(), count, c);
      cuda::run_here(cuda::momentum_body<true>{body.p.data(), body.g.data(), body.m.data(), c}, count);
      cuda::run_here(cuda::momentum_body<false>{body.v.data(), body.g.data(), body.m.data(), c}, count);
      cuda::run_here(cuda::sgd_body{body.p.data(), body.g.data(), c}, count);
    }
    CHECK(differing_states(cpu, body) == 0);
  }
}

TEST_CASE("cuda updates: the momentum of Muon is the CPU's to the bit", "[cuda][fast]") {
  thread_pool pool{1};
  state cpu, body;
  for (int step = 0; step < 3; ++step) {
    kernels::muon_momentum(pool, cpu.p.data(), cpu.g.data(), cpu.m.data(), count, 0.95F, 0.3F);
    cuda::run_here(cuda::muon_momentum_body{body.p.data(), body.g.data(), body.m.data(), 0.95F, 0.3F}, count);
  }
  CHECK(differing_states(cpu, body) == 0);
}

TEST_CASE("cuda updates: vector arithmetic is the CPU's to the bit, packed or not", "[cuda][fast]") {
  thread_pool pool{1};
  for (const std::int64_t offset : {0, 1}) {  // from the second element on nothing lies on packs
    const std::int64_t rest = count - offset;
    state cpu, body;
    kernels::axpy(pool, cpu.p.data() + offset, -0.3F, cpu.g.data() + offset, rest);
    kernels::scale(pool, cpu.v.data() + offset, 1.7F, rest);
    cuda::run_here(cuda::blend_body{body.p.data() + offset, 1.0F, body.g.data() + offset, -0.3F}, rest);
    cuda::run_here(cuda::scale_body{body.v.data() + offset, 1.7F}, rest);
    CHECK(differing_states(cpu, body) == 0);
    kernels::blend(cpu.p.data() + offset, 0.3F, cpu.g.data() + offset, 0.7F, rest);
    kernels::compensate(cpu.m.data() + offset, cpu.g.data() + offset, cpu.v.data() + offset, rest, {.steps = 3.0F});
    kernels::gossip_update(cpu.p.data() + offset, cpu.v.data() + offset, cpu.g.data() + offset, cpu.m.data() + offset, rest,
                           {.gamma = 0.6F});
    cuda::run_here(cuda::blend_body{body.p.data() + offset, 0.3F, body.g.data() + offset, 0.7F}, rest);
    cuda::run_here(
        cuda::compensate_body{body.m.data() + offset, body.g.data() + offset, body.v.data() + offset, {.steps = 3.0F}},
        rest);
    cuda::run_here(cuda::gossip_body{body.p.data() + offset,
                                     body.v.data() + offset,
                                     body.g.data() + offset,
                                     body.m.data() + offset,
                                     {.gamma = 0.6F}},
                   rest);
    for (float* counts : {cpu.v.data(), body.v.data()}) {
      for (std::int64_t i = 0; i < count; i += 3) counts[i] = 0.0F;
    }
    for (auto i = static_cast<std::size_t>(offset); i < cpu.p.size(); ++i) {
      if (cpu.v[i] != 0) cpu.p[i] = cpu.g[i];
    }
    cuda::run_here(cuda::take_over_body{body.p.data() + offset, body.g.data() + offset, body.v.data() + offset}, rest);
    CHECK(differing_states(cpu, body) == 0);
    cuda::run_here(cuda::fill_body{body.p.data() + offset, -2.0F}, rest);
    kernels::fill(pool, cpu.p.data() + offset, -2.0F, rest);
    CHECK(differing_states(cpu, body) == 0);
  }
}
