// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/schedule_cursor.hpp>

#include <causeway/core/rng.hpp>
#include <causeway/plan/schedules.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using plan::held_memory;
using plan::operation;
using plan::run_order;
using plan::schedule;
using plan::schedule_cursor;
using plan::work;

namespace {

/// One rank with the order written as text, "F0 F1 R0 B0", with ".1" for chunk 1.
schedule written(const std::string& text, std::uint32_t chunks, std::uint32_t micro_batches) {
  schedule s{1, chunks, micro_batches, true, {{}}};
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == ' ') continue;
    operation op;
    switch (text[at]) {
      case 'F': op.kind = work::forward; break;
      case 'B': op.kind = work::backward; break;
      case 'I': op.kind = work::input_gradient; break;
      case 'W': op.kind = work::weight_gradient; break;
      default: op.kind = work::recompute; break;
    }
    op.micro_batch = static_cast<std::uint32_t>(text[++at] - '0');
    if (at + 2 < text.size() && text[at + 1] == '.') op.chunk = static_cast<std::uint32_t>(text[at += 2] - '0');
    s.orders[0].push_back(op);
  }
  return s;
}

/// What the cursor says when only the named operations have their input: "F1" to run, "(F1)" to wait for.
std::string says(schedule_cursor& cursor, const std::vector<std::string>& arrived) {
  const auto chosen = cursor.next([&](const operation& op) {
    for (const std::string& name : arrived) {
      if (name == plan::to_string(op)) return true;
    }
    return false;
  });
  const std::string name = plan::to_string(cursor.order()[chosen.index]);
  return chosen.ready ? name : '(' + name + ')';
}

void run(schedule_cursor& cursor, const std::string& name) {
  for (std::size_t i = 0; i < cursor.order().size(); ++i) {
    if (plan::to_string(cursor.order()[i]) == name) return cursor.complete(i);
  }
  FAIL("no " << name);
}

}  // namespace

TEST_CASE("A strict cursor waits for the next operation, whatever else is ready", "[plan][fast]") {
  schedule_cursor cursor{written("F0 F1 B0 B1", 1, 2), 0};
  CHECK(says(cursor, {"F1", "B0"}) == "(F0)");
  CHECK(says(cursor, {"F0"}) == "F0");
  run(cursor, "F0");
  CHECK(says(cursor, {"B0"}) == "(F1)");
  run(cursor, "F1");
  CHECK(says(cursor, {"B0", "B1"}) == "B0");
  run(cursor, "B0");
  run(cursor, "B1");
  CHECK(cursor.finished());
  cursor.rewind();
  CHECK(says(cursor, {"F0"}) == "F0");
}

TEST_CASE("An opportunistic cursor runs the first later operation that is ready", "[plan][fast]") {
  schedule_cursor cursor{written("F0 F1 B0 F2 B1 B2", 1, 3), 0, run_order::opportunistic, {3, 0}};
  run(cursor, "F0");
  CHECK(says(cursor, {"B0"}) == "B0");  // overtakes F1
  run(cursor, "B0");
  CHECK(says(cursor, {"F2", "B1", "B2"}) == "(F1)");  // F2 and B1 must stay behind F1, B2 behind B1
  run(cursor, "F1");
  CHECK(says(cursor, {"B1"}) == "B1");
  CHECK(says(cursor, {"B1", "F2"}) == "F2");  // in its turn
}

TEST_CASE("An opportunistic cursor overtakes only while all that it overtakes keeps room", "[plan][fast]") {
  const schedule s = written("F0 F1 B0 F2 B1 F3 B2 B3", 1, 4);
  schedule_cursor tight{s, 0, run_order::opportunistic};
  schedule_cursor roomy{s, 0, run_order::opportunistic, {3, 0}};
  for (schedule_cursor* cursor : {&tight, &roomy}) {
    run(*cursor, "F0");
    run(*cursor, "F1");
  }
  CHECK(tight.held() == held_memory{2, 0});
  CHECK(says(tight, {"F2"}) == "(B0)");
  CHECK(says(roomy, {"F2"}) == "F2");
  run(roomy, "F2");
  CHECK(says(roomy, {"F3"}) == "(B0)");
}

TEST_CASE("Between a recompute and its backward come only forwards that store their input", "[plan][fast]") {
  // micro-batch 2 keeps its activations
  schedule_cursor cursor{written("F0 F1 R0 B0 F2 B2 R1 B1", 1, 3), 0, run_order::opportunistic, {1, 2}};
  CHECK(says(cursor, {"F0", "R0"}) == "F0");
  run(cursor, "F0");
  CHECK(says(cursor, {"R0", "B0"}) == "R0");  // F1 is late
  run(cursor, "R0");
  CHECK(cursor.held() == held_memory{1, 0});
  CHECK(says(cursor, {"F1", "F2", "R1"}) == "F1");
  run(cursor, "F1");
  CHECK(says(cursor, {"F2", "R1"}) == "(B0)");  // both would be a second set of activations
}

TEST_CASE("Halves of a backward keep the order of gradients", "[plan][fast]") {
  schedule_cursor cursor{written("F0 F1 I0 B1 W0", 1, 2), 0, run_order::opportunistic};
  run(cursor, "F0");
  run(cursor, "F1");
  CHECK(says(cursor, {"B1", "W0"}) == "(I0)");
  run(cursor, "I0");
  CHECK(says(cursor, {"W0"}) == "(B1)");  // this order adds up micro-batch 1 first: nothing may change that
}

TEST_CASE("Chunks overtake each other", "[plan][fast]") {
  schedule_cursor cursor{written("F0 F0.1 F1 F1.1 B0.1 B0 B1.1 B1", 2, 2), 0, run_order::opportunistic};
  run(cursor, "F0");
  CHECK(says(cursor, {"F1"}) == "F1");
  CHECK(says(cursor, {"F1.1"}) == "(F0.1)");
  run(cursor, "F0.1");
  CHECK(says(cursor, {"B0.1", "B0"}) == "B0.1");
}

TEST_CASE("An opportunistic order is always one that the validator's rules allow", "[plan][fast]") {
  // inputs arrive at random; the ranks of gpipe and 1f1b stay legal in memory and order, and come to the end
  rng draw{7};
  for (int trial = 0; trial < 200; ++trial) {
    const auto ranks = static_cast<std::uint32_t>(1 + draw.below(4));
    const auto count = static_cast<std::uint32_t>(1 + draw.below(6));
    const schedule s = trial % 2 == 0 ? *plan::gpipe(ranks, count) : *plan::one_f_one_b(ranks, count);
    const auto rank = static_cast<std::uint32_t>(draw.below(ranks));
    schedule_cursor cursor{s, rank, run_order::opportunistic};
    std::uint32_t forwards = 0, backwards = 0;
    while (!cursor.finished()) {
      const auto chosen = cursor.next([&](const operation&) { return draw.below(3) == 0; });
      if (!chosen.ready) continue;
      const operation& op = cursor.order()[chosen.index];
      REQUIRE(op.micro_batch == (op.kind == work::forward ? forwards++ : backwards++));
      REQUIRE(backwards <= forwards);
      cursor.complete(chosen.index);
      REQUIRE(cursor.held().within(plan::peak_memory(s, rank)));
    }
    CHECK(cursor.held() == held_memory{});
    CHECK(backwards == count);
  }
}
