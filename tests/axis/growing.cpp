// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/growing.hpp>

#include <causeway/comm/rounds.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/train/trainer.hpp>

#include <cstdint>
#include <vector>

#include "support/blocky.hpp"
#include "support/catch.hpp"
#include "support/conformance.hpp"

using namespace causeway;

TEST_CASE("growing: rounds double while the model hardly moves, up to the limit", "[axis][fast]") {
  axis::growing t{{.local_steps = 10, .most = 35, .factor = 2, .tolerance = 0.1}};
  int nobody = 0;
  REQUIRE(t.exchanged(nobody, {.movement = 0.2}));
  CHECK(t.next(0, 1) == 10);
  REQUIRE(t.exchanged(nobody, {.movement = 0.05}));
  CHECK(t.next(0, 1) == 20);
  REQUIRE(t.exchanged(nobody, {.movement = 0.05}));
  CHECK(t.next(0, 1) == 35);
  CHECK(t.first(0, 1) == 10);
}

TEST_CASE("growing: options that cannot work", "[axis][fast]") {
  CHECK(axis::growing{{.local_steps = 0}}.check(1).error().code == errc::invalid_argument);
  CHECK(axis::growing{{.local_steps = 9, .most = 8}}.check(1).error().code == errc::invalid_argument);
  CHECK(axis::growing{{.factor = 0}}.check(1).error().code == errc::invalid_argument);
}

TEST_CASE("growing: where results are a round late, rounds grow with each one that comes", "[axis][fast]") {
  trainer_options options;
  options.clip_norm = 0;
  auto t = make_trainer(support::blocky{}, environment{}, options,
                        comm::rounds{axis::growing{{.local_steps = 2, .most = 8, .factor = 2, .tolerance = 100}},
                                     axis::one_round_late{}, axis::gather_mean<>{}},
                        optim::sgd{});
  REQUIRE(t.start());
  std::vector<std::uint64_t> ends;  // of rounds
  for (std::uint64_t s = 0; s < 24; ++s) {
    const auto tokens = support::tokens_of(0, s);
    const std::uint64_t before = t.context().round();
    REQUIRE(t.step({tokens, tokens, 1}));
    if (t.context().round() != before) ends.push_back(s + 1);
  }
  CHECK(ends == std::vector<std::uint64_t>{2, 4, 8, 16, 24});  // nothing had come after the first two steps
}
