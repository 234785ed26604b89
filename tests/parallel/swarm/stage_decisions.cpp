// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/swarm/stage_decisions.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "support/catch.hpp"

namespace causeway::parallel {
namespace {

constexpr std::uint64_t step = 4;

/// Both of two stages have told their parts.
peer_directory two_stages() {
  peer_directory known{5, 2};
  known.remember(0, {step, 1.0, {1.0, 2.0}});
  known.remember(1, {step, 2.0, {0.5, 0.25}});
  return known;
}

}  // namespace

TEST_CASE("stage decisions: what several policies ask for is told in one piece, and given out again", "[parallel][fast]") {
  stage_decisions d;
  const auto memory = d.memory(4);
  std::array<double, 1> first{1};
  std::array<double, 2> second{2, 3};
  d.ask(second);
  d.begin();  // of an attempt that was called off
  d.ask(first);
  d.ask(second);
  CHECK((d.asked() == std::vector{1.0, 2.0, 3.0}));
  CHECK_FALSE(d.last());
  d.decide(step, std::array{9.0, 5.0, 6.0, 7.0});
  CHECK(first[0] == 5);
  CHECK((second == std::array{6.0, 7.0}));
  REQUIRE(d.last());
  CHECK(d.last()->step == step);
  CHECK(d.last()->squares == 9);
  CHECK((d.last()->asked == std::vector{5.0, 6.0, 7.0, 0.0}));

  stage_decisions other;  // whose state is replaced by that
  std::copy(memory.begin(), memory.end(), other.memory(4).begin());
  CHECK(other.last()->step == step);
  CHECK(other.last()->asked == d.last()->asked);
}

TEST_CASE("stage decisions: where nothing is asked for, what all stages came to is kept for one that did not hear it",
          "[parallel][fast]") {
  stage_decisions d;
  d.decide(step, std::array{3.0});
  CHECK_FALSE(d.last());  // it has no memory
  (void)d.memory(1);
  d.begin();
  d.decide(step, std::array{3.0});
  CHECK(d.last()->step == step);
  CHECK(d.last()->squares == 3);
  auto known = two_stages();
  CHECK(d.total(known, 1, step)->squares == 3);  // nobody need have committed
  known.remember(0, {step + 1, 1.0, {}});
  CHECK_FALSE(d.total(known, 0, step + 1));
  known.remember_decided({step + 1, 6.0, {}});  // stage 1 is lost, or was, and had committed that
  CHECK(d.total(known, 0, step + 1)->squares == 6);
}

TEST_CASE("stage decisions: the first stage adds up, the others wait for what somebody has committed", "[parallel][fast]") {
  stage_decisions d;
  double value = 0;
  d.ask(std::span{&value, 1});
  auto known = two_stages();
  REQUIRE(d.total(known, 0, step));
  CHECK((d.total(known, 0, step)->asked == std::vector{1.5, 2.25}));
  CHECK_FALSE(d.total(known, 1, step));
  CHECK_FALSE(d.total(known, 0, step + 1));
  known.remember_decided({step, 4.0, {7.0, 8.0}});
  for (const std::uint32_t stage : {0U, 1U}) CHECK((d.total(known, stage, step)->asked == std::vector{7.0, 8.0}));
}

}  // namespace causeway::parallel
