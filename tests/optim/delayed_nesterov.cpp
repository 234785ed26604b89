// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/delayed_nesterov.hpp>

#include <causeway/optim/nesterov.hpp>

#include "support/catch.hpp"
#include "support/optimizer_cases.hpp"

using namespace causeway;
using namespace causeway::optim;

namespace {

constexpr std::int64_t length = 40;

std::vector<float> push(int number) {
  std::vector<float> values(length);
  for (std::int64_t i = 0; i < length; ++i) values[static_cast<std::size_t>(i)] = test::draw(1000 * number + i);
  return values;
}

}  // namespace

TEST_CASE("delayed nesterov: N pushes with c = 0 are one Nesterov step on their mean, block after block", "[optim][fast]") {
  for (const std::uint32_t n : {1U, 3U, 8U}) {
    thread_pool pool;
    std::vector<float> one_by_one = push(0);
    std::vector<float> at_once = one_by_one;
    delayed_nesterov delayed{{.momentum = 0.9F, .period = n}};
    nesterov plain{{.momentum = 0.9F}};
    delayed.reset(length);
    plain.reset(length);
    int number = 0;
    for (int block = 0; block < 6; ++block) {
      std::vector<float> mean(length, 0.0F);
      for (std::uint32_t k = 0; k < n; ++k) {
        std::vector<float> p = push(++number);
        for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += p[i] / static_cast<float>(n);
        delayed.step(pool, {one_by_one, p, {}}, {.learning_rate = 0.7F});
      }
      plain.step(pool, {at_once, mean, {}}, {.learning_rate = 0.7F});
      INFO("N = " << n << ", block " << block);
      for (std::size_t i = 0; i < mean.size(); ++i) CHECK(one_by_one[i] == Approx(at_once[i]).margin(2e-5));
    }
  }
}

TEST_CASE("delayed nesterov: c gives the momentum to the pushes of a block, as much in all", "[optim][fast]") {
  // After a block the momentum is 2; of a block without new progress the movement is all momentum.
  for (const float c : {0.0F, 0.125F, 0.25F}) {
    thread_pool pool;
    std::vector<float> values{0.0F}, pushed{2.0F};
    delayed_nesterov optimizer{{.momentum = 0.5F, .period = 4, .early = c}};
    optimizer.reset(1);
    for (int i = 0; i < 4; ++i) optimizer.step(pool, {values, pushed, {}}, {.learning_rate = 1.0F});
    CHECK(values[0] == -2.0F - (1 - 4 * c + c) * 0.5F * 2.0F);
    pushed[0] = 0;
    std::vector<float> moved;
    for (int i = 0; i < 4; ++i) {
      const float before = values[0];
      optimizer.step(pool, {values, pushed, {}}, {.learning_rate = 1.0F});
      moved.push_back(before - values[0]);
    }
    const float early = c * 0.5F * 2.0F;
    CHECK(moved == std::vector<float>{early, early, early, (1 - 4 * c + c) * 0.5F * 1.0F});
  }
}

TEST_CASE("delayed nesterov: goes on from a checkpoint in the middle of a block", "[optim][fast]") {
  CHECK(test::survives_a_checkpoint<delayed_nesterov>(delayed_nesterov_options{.period = 3, .early = 0.1F}));
}
