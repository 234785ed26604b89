// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/speeds.hpp>

#include <causeway/axis/batch_by_speed.hpp>
#include <causeway/axis/by_speed.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/train/context.hpp>

#include <cstdint>
#include <vector>

#include "support/blocky.hpp"
#include "support/catch.hpp"
#include "support/cluster.hpp"

using namespace causeway;

namespace {

// Two pipelines of two stages: peers 0 and 1, 2 and 3. Their stages measured `seconds` for four steps.
template <class Body>
void on_stages(const std::vector<double>& seconds, Body&& body) {
  support::run_cluster(4, [&](std::uint32_t peer, environment env) {
    training_context<support::blocky, optim::sgd> ctx{support::blocky{}, optim::sgd{}, std::move(env), {}, false};
    const std::uint32_t first = peer - peer % 2;
    ctx.form_group({peer % 2, peer % 2 + 2});
    ctx.stages().form(ctx.world(), {first, first + 1}, {});
    body(ctx, peer, seconds[peer]);
  });
}

}  // namespace

TEST_CASE("speeds: a stage's is that of its pipeline, and all stages hear the same", "[axis][fast]") {
  std::vector<std::vector<double>> heard(4);
  on_stages({1, 3, 4, 4}, [&](auto& ctx, std::uint32_t peer, double seconds) {
    REQUIRE(axis::detail::speeds_of_all(ctx, 4, seconds, 0, heard[peer]));
  });
  for (const auto& speeds : heard) CHECK(speeds == std::vector<double>{2, 1});
}

TEST_CASE("speeds: one that a stage does not know leaves its pipeline without, at every stage", "[axis][fast]") {
  on_stages({0, 0, 4, 4}, [&](auto& ctx, std::uint32_t, double seconds) {
    std::vector<double> speeds;
    REQUIRE(axis::detail::speeds_of_all(ctx, 4, seconds, 0, speeds));
    CHECK(speeds == std::vector<double>{0, 1});
  });
}

TEST_CASE("speeds: all stages of a pipeline take the same number of steps, and the same batch", "[axis][fast]") {
  std::vector<std::uint32_t> steps(4), sequences(4), before(4);
  on_stages({1, 3, 4, 4}, [&](auto& ctx, std::uint32_t peer, double seconds) {
    axis::by_speed by{{.local_steps = 8}};
    const axis::exchange_report report{.steps = 4, .samples = 16, .compute_seconds = seconds};
    REQUIRE(by.exchanged(ctx, report));
    steps[peer] = by.next(0, 1);
    axis::batch_by_speed batches{{.sequences = 8}};
    REQUIRE(batches.open(ctx));
    REQUIRE(batches.tell(ctx, report));
    sequences[peer] = batches.sequences();
    before[peer] = batches.sequences_before();
  });
  CHECK(steps == std::vector<std::uint32_t>{8, 8, 4, 4});
  CHECK(sequences == std::vector<std::uint32_t>{5, 5, 3, 3});
  CHECK(before == std::vector<std::uint32_t>{0, 0, 5, 5});
}
