// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/nesterov_in_parts.hpp>

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

TEST_CASE("nesterov in parts: a round in parts is one Nesterov step on their mean, round after round", "[optim][fast]") {
  const std::vector<std::vector<float>> rounds{{1}, {0.5F, 0.5F}, {0.75F, 0.25F}, {1.0F / 3, 1.0F / 3, 1.0F / 3}, {1}};
  thread_pool pool;
  std::vector<float> in_parts = push(0);
  std::vector<float> at_once = in_parts;
  nesterov_in_parts parts;
  nesterov plain;
  parts.reset(length);
  plain.reset(length);
  int number = 0;
  for (const auto& shares : rounds) {
    std::vector<float> mean(length, 0.0F);
    for (const float share : shares) {
      std::vector<float> p = push(++number);
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += share * p[i];
      parts.step(pool, {in_parts, p, {}}, {.learning_rate = 0.7F, .gradient_scale = share});
    }
    plain.step(pool, {at_once, mean, {}}, {.learning_rate = 0.7F});
    INFO("a round of " << shares.size());
    for (std::size_t i = 0; i < mean.size(); ++i) CHECK(in_parts[i] == Approx(at_once[i]).margin(2e-5));
  }
}

TEST_CASE("nesterov in parts: what shares make beyond a round counts for the next", "[optim][fast]") {
  // 3/4 a part: the momentum moves with parts 2, 3 and 4 of four, which are three rounds.
  thread_pool pool;
  std::vector<float> values{0.0F}, pushed{0.0F};
  nesterov_in_parts optimizer{{.momentum = 0.5F}};
  optimizer.reset(1);
  pushed[0] = 8;
  optimizer.step(pool, {values, pushed, {}}, {.learning_rate = 1.0F});  // momentum 8
  pushed[0] = 0;
  std::vector<float> moved;
  for (int i = 0; i < 8; ++i) {
    const float before = values[0];
    optimizer.step(pool, {values, pushed, {}}, {.learning_rate = 1.0F, .gradient_scale = 0.75F});
    moved.push_back(before - values[0]);
  }
  CHECK(moved == std::vector<float>{0, 2, 1, 0.5F, 0, 0.25F, 0.125F, 0.0625F});
}

TEST_CASE("nesterov in parts: goes on from a checkpoint in the middle of a round", "[optim][fast]") {
  thread_pool pool;
  const auto part = [&](nesterov_in_parts& o, std::vector<float>& values, int number) {
    std::vector<float> p = push(number);
    o.step(pool, {values, p, {}}, {.learning_rate = 0.7F, .gradient_scale = 0.4F});
  };
  std::vector<float> straight = push(0);
  nesterov_in_parts whole;
  whole.reset(length);
  for (int i = 1; i <= 7; ++i) part(whole, straight, i);

  std::vector<float> again = push(0);
  nesterov_in_parts first, second;
  first.reset(length);
  for (int i = 1; i <= 4; ++i) part(first, again, i);
  test::memory_archive saved;
  saved(first);
  saved.reading = true;
  second.reset(length);
  saved(second);
  for (int i = 5; i <= 7; ++i) part(second, again, i);
  CHECK(again == straight);
}

TEST_CASE("nesterov in parts: as whole steps each part is a Nesterov step, whatever its share", "[optim][fast]") {
  thread_pool pool;
  std::vector<float> in_parts = push(0), at_once = in_parts;
  nesterov_in_parts parts{{.momentum = 0.8F, .parts = part_steps::whole}};
  nesterov plain{{.momentum = 0.8F}};
  parts.reset(length);
  plain.reset(length);
  for (const float share : {1.0F, 0.25F, 0.6F, 0.1F}) {
    std::vector<float> pushed = push(static_cast<int>(share * 100)), same = pushed;
    parts.step(pool, {in_parts, pushed, {}}, {.learning_rate = 0.7F, .gradient_scale = share});
    plain.step(pool, {at_once, same, {}}, {.learning_rate = 0.7F});
    for (std::size_t i = 0; i < pushed.size(); ++i) CHECK(in_parts[i] == Approx(at_once[i]).margin(1e-5));
  }
}
