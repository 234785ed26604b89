// SPDX-License-Identifier: Apache-2.0
#include <causeway/policy/rules.hpp>

#include "support/catch.hpp"

using namespace causeway;

TEST_CASE("rules: elastic peers need a communication policy that tolerates them", "[policy][fast]") {
  constexpr fault_traits elastic{.produces = peers::elastic};
  STATIC_REQUIRE(rules::c1({}, {}));
  STATIC_REQUIRE(rules::c1({.tolerates = peers::elastic}, elastic));
  STATIC_REQUIRE(!rules::c1({.tolerates = peers::fixed}, elastic));
}

TEST_CASE("rules: a stage must not stay without an owner", "[policy][fast]") {
  constexpr fault_traits elastic{.produces = peers::elastic};
  STATIC_REQUIRE(rules::c2({.staged = true}, {}));
  STATIC_REQUIRE(!rules::c2({.staged = true}, elastic));
  STATIC_REQUIRE(rules::c2({.staged = true, .reroutes = true}, elastic));
  STATIC_REQUIRE(rules::c2({.staged = true}, {.produces = peers::elastic, .refills_stage = true}));
}

TEST_CASE("rules: exchanges of stages come after the same steps at all their holders", "[policy][fast]") {
  STATIC_REQUIRE(rules::c3({.gathers_samples = true}, {}));
  STATIC_REQUIRE(!rules::c3({.gathers_samples = true}, {.global_step = false}));
  STATIC_REQUIRE(rules::c3({.rounds_by_clock = true}, {}));
  STATIC_REQUIRE(!rules::c3({.rounds_by_clock = true}, {.global_step = false}));
  STATIC_REQUIRE(rules::c3({.exchanges_gradients = true}, {.global_step = false}));
  STATIC_REQUIRE(rules::c3({}, {.global_step = false}));
  STATIC_REQUIRE(rules::c4({.rounds_by_steps = false}, {}));
  STATIC_REQUIRE(!rules::c4({.rounds_by_steps = false}, {.staged = true}));
  STATIC_REQUIRE(rules::c4({.rounds_by_steps = false}, {.staged = true, .global_step = false}));
  STATIC_REQUIRE(rules::c4({}, {.staged = true}));
  constexpr comm_traits asks{.rounds_by_steps = false, .rounds_over_stages = true};
  STATIC_REQUIRE(!rules::c4(asks, {.staged = true}));
  STATIC_REQUIRE(rules::c4(asks, {.staged = true, .sums_over_stages = true}));
  STATIC_REQUIRE(!rules::c4({.rounds_by_steps = false}, {.staged = true, .sums_over_stages = true}));
  constexpr comm_traits gathers{.rounds_by_steps = false, .gathers_samples = true};
  STATIC_REQUIRE(!rules::c4(gathers, {.staged = true, .sums_over_stages = true}));
  STATIC_REQUIRE(rules::c4(gathers, {.staged = true, .gathers_together = true}));
  STATIC_REQUIRE(!rules::c4({.rounds_by_steps = false}, {.staged = true, .gathers_together = true}));
  STATIC_REQUIRE(!rules::c5({}, {.shares_gradient = true}));
  STATIC_REQUIRE(rules::c5({.sums_gradients = true}, {.shares_gradient = true}));
  STATIC_REQUIRE(rules::c5({}, {}));
  constexpr comm_traits by_blocks{.exchanges_gradients = true, .moves_with_blocks = true};
  STATIC_REQUIRE(rules::c5(by_blocks, {.shares_gradient = true}));
  STATIC_REQUIRE(!rules::c5({.moves_with_blocks = true}, {.shares_gradient = true}));  // local steps
  constexpr comm_traits ahead{.exchanges_gradients = true, .moves_with_blocks = true, .looks_ahead = true};
  STATIC_REQUIRE(rules::c5(ahead, {.shares_gradient = true}));
  STATIC_REQUIRE(!rules::c7(by_blocks, {.moves_blocks = true}));
  STATIC_REQUIRE(!rules::c6({}, {.computes_late = true}));
  STATIC_REQUIRE(rules::c6({.allows_late_steps = true}, {.computes_late = true}));
  STATIC_REQUIRE(rules::c6({}, {}));
}

TEST_CASE("rules: rows of a stage are of the same blocks at all its holders", "[policy][fast]") {
  STATIC_REQUIRE(rules::c8({}, {}));
  STATIC_REQUIRE(!rules::c8({.exchanges_gradients = true, .moves_with_blocks = true}, {.cut_apart = true}));
  STATIC_REQUIRE(!rules::c8({.moves_with_blocks = true}, {.moves_blocks = true, .cut_apart = true}));
  constexpr comm_traits rows{.exchanges_gradients = true, .moves_with_blocks = true, .rows_in_parts = true};
  STATIC_REQUIRE(rules::c8(rows, {.cut_apart = true, .rows_in_parts = true}));
  STATIC_REQUIRE(!rules::c8(rows, {.cut_apart = true}));  // micro-batches that go through other pipelines
  STATIC_REQUIRE(rules::c8({.exchanges_gradients = true, .sums_gradients = true}, {.cut_apart = true}));
  STATIC_REQUIRE(!rules::c8({.moves_with_blocks = true}, {.moves_blocks = true, .detours = true}));
  constexpr comm_traits ahead{.exchanges_gradients = true, .rows_in_parts = true, .looks_ahead = true};
  STATIC_REQUIRE(rules::c8(ahead, {.cut_apart = true, .rows_in_parts = true}));
  STATIC_REQUIRE(!rules::c8(ahead, {.cut_apart = true, .rows_in_parts = true, .repeats_work = true}));
  STATIC_REQUIRE(rules::c8(rows, {.cut_apart = true, .rows_in_parts = true, .repeats_work = true}));
}

TEST_CASE("rules: what a policy keeps goes with the blocks that move", "[policy][fast]") {
  STATIC_REQUIRE(!rules::c7({.allows_late_steps = true}, {.moves_blocks = true}));
  STATIC_REQUIRE(rules::c7({.moves_with_blocks = true}, {.moves_blocks = true}));
  STATIC_REQUIRE(rules::c7({}, {}));
}
