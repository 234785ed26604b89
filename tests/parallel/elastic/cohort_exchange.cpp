// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic/cohort_exchange.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/cluster.hpp"

using namespace causeway;
using parallel::cohort_member;

TEST_CASE("cohort exchange: who missed a round has what the first has that did not", "[parallel][fast]") {
  std::vector<std::uint64_t> numbers{0, 11, 12};
  support::run_cluster(3, [&](std::uint32_t p, environment env) {
    parallel::exchange_state state;
    state.alike = {std::as_writable_bytes(std::span{&numbers[p], 1})};
    REQUIRE(parallel::take_alike(env.transport, {.channel = 40, .step = 1}, state, p > 0, {}));
  });
  CHECK(numbers == std::vector<std::uint64_t>{11, 11, 12});
}

TEST_CASE("cohort exchange: if nobody has it, it says whom to start", "[parallel][fast]") {
  support::run_cluster(2, [&](std::uint32_t, environment env) {
    const auto outcome = parallel::take_alike(env.transport, {.channel = 40, .step = 1}, {}, false, {});
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == errc::not_found);
    CHECK(outcome.error().text().find("start a peer") != std::string::npos);
  });
}

TEST_CASE("cohort exchange: what the policy keeps is stored as numbers and comes back with the same bytes",
          "[parallel][fast]") {
  std::vector<std::uint64_t> steps{1, 0xFFFFFFFFFFFFFFFF};
  std::uint8_t ended = 200;
  parallel::exchange_state state;
  state.alike = {std::as_writable_bytes(std::span{steps}), std::as_writable_bytes(std::span{&ended, 1})};
  const auto stored = parallel::as_numbers(state);
  CHECK(stored.size() == 5);
  steps = {3, 4};
  ended = 5;
  parallel::put_numbers(state, stored);
  CHECK(steps == std::vector<std::uint64_t>{1, 0xFFFFFFFFFFFFFFFF});
  CHECK(ended == 200);
}

TEST_CASE("cohort exchange: who is behind with an evaluation takes its outcome within its own replica only",
          "[parallel][fast]") {
  const stage::replica mine{{{1, {0, 2}}, {2, {2, 4}}}, 1};
  parallel::cluster_inventory inventory;
  for (const std::uint64_t id : {1U, 2U, 3U}) {
    inventory.snapshot.peers.emplace_back();
    inventory.snapshot.peers.back().id = id;
  }
  const cohort_member behind{.cohort = 5, .steps = 2, .evaluated = 1};
  std::vector<cohort_member> members{behind, behind, {.cohort = 6, .steps = 2, .evaluation = 9, .evaluated = 4}};
  CHECK(parallel::evaluations_in(mine, inventory, members, behind).through_with == 1);
  members[1] = {.cohort = 5, .steps = 2, .evaluation = 3, .evaluated = 2};
  auto known = parallel::evaluations_in(mine, inventory, members, behind);
  CHECK(known.through_with == 2);
  CHECK(known.missed == 3);
  members[1].cohort = 4;  // it comes from another replica, whose parameters are others
  known = parallel::evaluations_in(mine, inventory, members, behind);
  CHECK(known.through_with == 2);
  CHECK(std::isnan(known.missed));
  CHECK(known.steps == 2);  // of that step only
}

TEST_CASE("cohort exchange: who is behind does without the evaluations of a step that others have taken",
          "[parallel][fast]") {
  const stage::replica mine{{{1, {0, 2}}, {2, {2, 4}}}, 1};
  parallel::cluster_inventory inventory;
  for (const std::uint64_t id : {1U, 2U}) {
    inventory.snapshot.peers.emplace_back();
    inventory.snapshot.peers.back().id = id;
  }
  const cohort_member behind{.cohort = 5, .steps = 2, .evaluated = 1};
  std::vector<cohort_member> members{behind, {.cohort = 5, .steps = 3}};
  CHECK(parallel::evaluations_in(mine, inventory, members, behind).through_with > 1000);
  CHECK(parallel::evaluations_in(mine, inventory, members, members[1]).through_with == 0);
  members[1].cohort = 6;
  CHECK(parallel::evaluations_in(mine, inventory, members, behind).through_with == 1);
}

TEST_CASE("cohort exchange: peers that go on from the same exchange say the same of what it remembers",
          "[parallel][fast]") {
  std::vector<float> factors{1, 2, 3};
  parallel::exchange_state none, some;
  none.memory = [](std::size_t) { return std::vector<std::span<std::byte>>{}; };
  some.memory = [&](std::size_t segment) {
    return std::vector<std::span<std::byte>>{std::as_writable_bytes(std::span{factors}.subspan(segment, 1))};
  };
  const auto before = parallel::name_of_memory(some, 1);
  CHECK(before == parallel::name_of_memory(some, 1));
  CHECK(before != parallel::name_of_memory(some, 0));
  factors[1] = 4;
  CHECK(before != parallel::name_of_memory(some, 1));
  CHECK(parallel::name_of_memory(none, 0) == parallel::name_of_memory(none, 1));
  const std::vector<parallel::exchange_share> all{{.row = 3}, {.row = 0}, {.row = 1}};
  const parallel::exchange_entry entry{.holders = {0, 2}, .shares = {0.5, 0.5}};
  CHECK(parallel::of_step_before(entry, all).shares == std::vector{0.75, 0.25});
  CHECK(parallel::of_step_before({.holders = {1}, .shares = {1.0}}, all).shares == std::vector{0.0});
}
