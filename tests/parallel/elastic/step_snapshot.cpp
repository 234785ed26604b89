// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic/step_snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/catch.hpp"
#include "support/cluster.hpp"

namespace causeway {
namespace {

struct no_tape {};
using step = parallel::step_snapshot<no_tape>;
using plan::unit_state;

// Three stages, two micro-batches.
const stage::layout three{{{{{1, {0, 1}}, {2, {1, 2}}, {3, {2, 3}}}, 2}}};

}  // namespace

TEST_CASE("step snapshot: a peer has its own stage and its successor's", "[parallel][fast]") {
  for (std::size_t rank = 0; rank < 3; ++rank) {
    step s{three, {0, rank}};
    for (std::size_t stage = 0; stage < 3; ++stage) CHECK(s.has(stage) == (stage == rank || stage == (rank + 1) % 3));
    CHECK(s.micro_batches() == 2);
    CHECK(s.stages == 3);
  }
  step alone{stage::layout{{{{{1, {0, 3}}}, 4}}}, {0, 0}};
  CHECK(alone.successor == 0);
  CHECK_FALSE(alone.give_back());
}

TEST_CASE("step snapshot: what others are told comes back, and bytes that nobody says are refused", "[parallel][fast]") {
  step s{three, {0, 2}};
  s.of(2, 0).state = unit_state::done;
  s.of(2, 1).state = unit_state::forward;
  s.of(0, 1).state = unit_state::forward;
  auto bytes = s.progress();
  const auto rows = parallel::decode_progress(bytes, 2);
  REQUIRE(rows);
  CHECK((*rows)[0] == std::vector{unit_state::done, unit_state::forward});
  CHECK((*rows)[1] == std::vector{unit_state::untouched, unit_state::forward});
  CHECK(parallel::decode_progress(bytes, 3).error().code == errc::protocol);
  CHECK(parallel::decode_progress({}, 2).error().code == errc::protocol);
  bytes[3] = std::byte{3};
  CHECK(parallel::decode_progress(bytes, 2).error().code == errc::corrupt);
}

TEST_CASE("step snapshot: a successor that is there after all counts itself", "[parallel][fast]") {
  step s{three, {0, 0}};
  s.of(0, 0).state = unit_state::done;
  s.of(1, 0).state = s.of(1, 1).state = unit_state::forward;
  CHECK_FALSE(s.give_back());  // forwards that were repeated harm nobody
  CHECK(s.of(1, 1).state == unit_state::forward);
  s.of(1, 0).state = unit_state::done;
  CHECK(s.give_back());
  CHECK(s.of(1, 0).state == unit_state::untouched);
  CHECK(s.of(1, 1).state == unit_state::untouched);
  CHECK(s.of(0, 0).state == unit_state::done);
}

TEST_CASE("step snapshot: everybody hears how far everybody is", "[parallel][fast]") {
  std::vector<std::vector<std::vector<std::byte>>> all(3);
  support::run_cluster(3, [&](std::uint32_t p, environment env) {
    step s{three, {0, p}};
    s.of(p, 0).state = unit_state::forward;
    all[p] = parallel::gather_progress(env.transport, {.channel = 96}, p == 2 ? nullptr : &s, 2, {}).value();
  });
  for (std::uint32_t p = 0; p < 3; ++p) {
    CHECK(all[p] == all[0]);
    CHECK(all[p][0].size() == 4);
    CHECK(all[p][2].empty());
  }
}

}  // namespace causeway
