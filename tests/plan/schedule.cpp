// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/schedule.hpp>

#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using plan::held_memory;
using plan::operation;
using plan::schedule;
using plan::stage_place;
using plan::work;

TEST_CASE("Virtual stages go round the ranks, chunk after chunk", "[plan][fast]") {
  const schedule s{3, 2, 1, true, {}};
  CHECK(plan::virtual_stages(s) == 6);
  for (std::uint32_t v = 0; v < 6; ++v) CHECK(plan::virtual_stage(s, plan::place_of(s, v)) == v);
  CHECK(plan::place_of(s, 4) == stage_place{1, 1});
  schedule v = s;
  v.path = plan::stage_path::folded;
  for (std::uint32_t i = 0; i < 6; ++i) CHECK(plan::virtual_stage(v, plan::place_of(v, i)) == i);
  CHECK(plan::place_of(v, 3) == stage_place{2, 1});
  CHECK(plan::place_of(v, 5) == stage_place{0, 1});
  CHECK(plan::target_of(v, 2, {work::forward, 0, 0}) == stage_place{2, 1});
  CHECK(plan::target_of(v, 2, {work::forward, 0, 1}) == stage_place{1, 1});
}

TEST_CASE("Where there are two ways, every stage has two places, and a micro-batch goes through one of them",
          "[plan][fast]") {
  const schedule s{4, 2, 5, true, {}, plan::stage_path::two_ways};
  CHECK(plan::virtual_stages(s) == 4);
  CHECK(plan::first_back(s) == 3);
  for (std::uint32_t v = 0; v < 4; ++v) {
    CHECK(plan::place_of(s, v, 2) == stage_place{v, 0});
    CHECK(plan::place_of(s, v, 3) == stage_place{3 - v, 1});
    for (const std::uint32_t m : {2U, 3U}) CHECK(plan::virtual_stage(s, plan::place_of(s, v, m)) == v);
  }
  CHECK(plan::goes_through(s, 2, 0));
  CHECK_FALSE(plan::goes_through(s, 2, 1));
  CHECK(plan::goes_through(s, 3, 1));
  CHECK(plan::source_of(s, 2, {work::forward, 3, 1}) == stage_place{3, 1});
  CHECK(plan::source_of(s, 3, {work::forward, 3, 1}) == std::nullopt);
  CHECK(plan::target_of(s, 0, {work::forward, 3, 1}) == std::nullopt);
  CHECK(plan::source_of(s, 0, {work::backward, 3, 1}) == std::nullopt);
  CHECK(plan::source_of(s, 1, {work::backward, 3, 1}) == stage_place{0, 1});
}

TEST_CASE("An operation's input comes from the neighbouring virtual stage, and its output goes there", "[plan][fast]") {
  const schedule s{3, 2, 1, true, {}};
  // forward: from the stage before, to the stage after, and around the corner into the next chunk
  CHECK(plan::source_of(s, 0, {work::forward, 0, 0}) == std::nullopt);
  CHECK(plan::source_of(s, 0, {work::forward, 0, 1}) == stage_place{2, 0});
  CHECK(plan::target_of(s, 2, {work::forward, 0, 0}) == stage_place{0, 1});
  CHECK(plan::target_of(s, 2, {work::forward, 0, 1}) == std::nullopt);
  for (const work kind : {work::backward, work::input_gradient}) {
    CHECK(plan::source_of(s, 2, {kind, 0, 1}) == std::nullopt);
    CHECK(plan::source_of(s, 2, {kind, 0, 0}) == stage_place{0, 1});
    CHECK(plan::target_of(s, 0, {kind, 0, 1}) == stage_place{2, 0});
    CHECK(plan::target_of(s, 0, {kind, 0, 0}) == std::nullopt);
  }
  for (const work kind : {work::weight_gradient, work::recompute}) {
    CHECK(plan::source_of(s, 1, {kind, 0, 0}) == std::nullopt);
    CHECK(plan::target_of(s, 1, {kind, 0, 0}) == std::nullopt);
  }
}

TEST_CASE("Operations have short names", "[plan][fast]") {
  CHECK(plan::to_string({work::forward, 3}) == "F3");
  CHECK(plan::to_string({work::backward, 12, 1}) == "B12.1");
  CHECK(plan::to_string({work::input_gradient, 0}) == "I0");
  CHECK(plan::to_string({work::weight_gradient, 0}) == "W0");
  CHECK(plan::to_string({work::recompute, 0}) == "R0");
}

TEST_CASE("Memory is held from the forward or recompute to the weight gradient", "[plan][fast]") {
  const schedule s{1,
                   1,
                   3,
                   true,
                   {{{work::forward, 0},          // +1 activations
                     {work::forward, 1},          // +1
                     {work::input_gradient, 0},   // the weight gradient needs them, too
                     {work::forward, 2},          // +1 input
                     {work::weight_gradient, 0},  // -1
                     {work::backward, 1},         // -1
                     {work::recompute, 2},        // the input becomes activations
                     {work::backward, 2}}}};
  const std::vector<held_memory> expected{{1, 0}, {1, 0}, {0, 0}, {0, 1}, {-1, 0}, {-1, 0}, {1, -1}, {-1, 0}};
  CHECK(plan::memory_changes(s, 0) == expected);
  CHECK(plan::peak_memory(s, 0) == held_memory{2, 1});
  CHECK(held_memory{2, 1}.within({2, 1}));
  CHECK_FALSE(held_memory{2, 1}.within({1, 9}));
  CHECK_FALSE(held_memory{2, 1}.within({9, 0}));
}
