// SPDX-License-Identifier: Apache-2.0
// Pipelines whose batches follow speed, and rows that are of several rounds: results that are taken later, and two policies
// with rounds of their own. A row counts by the samples behind it, whatever part its slot has when it is exchanged.
#include <causeway/parallel/local_async_pipeline.hpp>

#include <cmath>

#include "parallel/elastic/divided_rows.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "support/catch.hpp"

using namespace causeway;
using namespace support::divided;

TEMPLATE_TEST_CASE("local pipeline: with parts by speed a row that is a round late counts by the round that it is of",
                   "[parallel][elastic][fast]", late<>, late_unsent) {
  const auto o = support::twelve_parts(GENERATE(8U, 9U, 13U));
  CAPTURE(o.steps);
  const divided_run run = run_of<TestType>(o);
  CHECK(support::off(run.is, a_round_late<TestType>(o, run, weights::behind), o.layers) < 1e-4);
  CHECK(support::off(run.is, a_round_late<TestType>(o, run, weights::in_force), o.layers) > 1e-3);
}

TEST_CASE("local pipeline: with parts by speed a row that is a step late counts by the steps that it is of",
          "[parallel][elastic][fast]") {
  const auto o = support::twelve_parts(GENERATE(8U, 9U, 10U));
  CAPTURE(o.steps);
  const divided_run run = run_of<a_step_late<>>(o);
  CHECK(support::off(run.is, replayed(o, run, weights::behind), o.layers) < 1e-4);
  CHECK(support::off(run.is, replayed(o, run, weights::in_force), o.layers) > 1e-3);
}

TEMPLATE_TEST_CASE("local pipeline: beside a policy that divides batches another one's rows count by their own steps",
                   "[parallel][elastic][fast]", means_beside<>, summed_means_beside, means_divide<>) {
  const auto o = support::twelve_parts(GENERATE(7U, 9U));
  CAPTURE(o.steps);
  const divided_run run = run_of<TestType>(o);
  CHECK(support::off(run.is, stacked<TestType>(o, run, weights::behind), o.layers) < 1e-4);
  CHECK(support::off(run.is, stacked<TestType>(o, run, weights::in_force), o.layers) > 1e-3);
}

TEMPLATE_TEST_CASE("local pipeline: parts by speed with rows of several rounds go on whoever is lost, and let others in",
                   "[parallel][elastic]", late<4>, (late<4, parallel::streamed_steps>), a_step_late<4>, means_beside<4>,
                   means_divide<4>, sparta_beside) {
  support::goes_on_whoever_is_killed<TestType>(29, 0.03);
  support::lets_newcomers_in<TestType>();
}

TEMPLATE_TEST_CASE("local pipeline: parts by speed with rows of several rounds go on from checkpoints with the same bits",
                   "[parallel][elastic][fast]", late<4>, a_step_late<4>, means_beside<4>, means_divide<4>) {
  support::goes_on_from_checkpoints<TestType>();
}

TEMPLATE_TEST_CASE("local pipeline: spare peers take up parts by speed with rows of several rounds", "[parallel][elastic]",
                   late<4>, a_step_late<4>, means_beside<4>, means_divide<4>) {
  auto o = support::two_pipelines();
  o.steps = 12;
  support::spare_peers_take_over<TestType>(o, 700, 97, [&](const auto& all, const auto& quiet) {
    CHECK(std::abs(support::held_out_loss(all, o.layers) / support::held_out_loss(quiet, o.layers) - 1) < 0.03);
  });
}

TEMPLATE_TEST_CASE("local pipeline: parts by speed with rows of several rounds, whoever is lost at every network call",
                   "[parallel][elastic][local_pipeline][slow][every_call]", late<4>, a_step_late<4>, means_beside<4>,
                   means_divide<4>, sparta_beside) {
  support::goes_on_whoever_is_killed<TestType>(1, 0.03);
}
