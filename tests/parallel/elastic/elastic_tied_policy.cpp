// SPDX-License-Identifier: Apache-2.0
// The same model's gradients, exchanged by a policy: the first stage has the table's row, with the last one's part of it.
#include <causeway/parallel/elastic_pipeline.hpp>

#include <causeway/compress/block_int8.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/stage/recovery_redundant.hpp>
#include <causeway/stage/recovery_redundant_forward.hpp>
#include <causeway/stage/recovery_reroute.hpp>

#include <cstddef>
#include <cstdint>

#include "parallel/elastic/elastic_tied_world.hpp"
#include "parallel/elastic/whole_rounds.hpp"
#include "support/catch.hpp"

namespace causeway { namespace {

using namespace tied_tables;

// Where peers have several stages, or pipelines are cut in different ways.
template <class Recovery>
void exchanges_a_table(elastic_world_options o, const Recovery& recovery) {
  const auto dense = [] { return comm::rounds{axis::every{1}, axis::gradient{}, axis::all_reduce<>{}}; };
  const auto make = [&](const elastic_world_options& with_this) { return tied_world{with_this, recovery, dense}; };
  support::worlds_come_to(unsplit(o), o, make, founded, 6);
}

TEST_CASE("tied tables: a policy exchanges the gradient of redundant pipelines", "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.hosts = GENERATE(3U, 4U);
  o.layers = 6;
  o.victim = GENERATE(0U, 2U);
  exchanges_a_table(o, stage::recovery::redundant{o.hosts == 3 ? 3 : 2});
  exchanges_a_table(o, stage::recovery::redundant_forward{o.hosts == 3 ? 3 : 2});
}

TEST_CASE("tied tables: a policy exchanges the gradient of pipelines from templates", "[parallel][elastic][fast]") {
  elastic_world_options o = five_peers();
  o.victim = GENERATE(1U, 4U);
  exchanges_a_table(o, support::three_block_templates());
}

TEST_CASE("tied tables: the gradient is gathered over three steps where pipelines are cut apart",
          "[parallel][elastic][fast]") {
  elastic_world_options o = five_peers();
  o.steps = 2 * support::round_steps;
  o.victim = GENERATE(1U, 4U);
  const auto batch = static_cast<std::uint64_t>(2 * o.micro_batches + 1);
  const auto gathers = [batch] { return presets::make(presets::dedloc_options{.batch = batch}); };
  const auto whole = support::in_whole_rounds(o, tied_gpt(o.layers));
  const auto come_to = [&](const auto& recovery) {
    const auto make = [&](const elastic_world_options& with_this) { return tied_world{with_this, recovery, gathers}; };
    support::worlds_come_to(whole, o, make, founded, 6);
  };
  come_to(support::three_block_templates());
  come_to(stage::recovery::redundant{2});
}

TEST_CASE("tied tables: a policy that exchanges gradients gives both ends the same bits of the table, whoever is killed",
          "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.dies_at = UINT64_MAX;
  const stage::recovery::regroup two{2};
  const auto whole = unsplit(o);
  const auto dense = [] { return comm::rounds{axis::every{1}, axis::gradient{}, axis::all_reduce<>{}}; };
  const auto coded = [] { return comm::every_step<compress::block_int8>{}; };
  const auto factors = [] { return presets::make(presets::power_sgd_options{}); };
  tied_world quiet{o, two, dense}, eight_bits{o, two, coded}, low_rank{o, two, factors};
  for (tied_world* w : {&quiet, &eight_bits, &low_rank}) {
    w->boot();
    w->run();
    CHECK(errors_of(*w, o.hosts).empty());
    REQUIRE(w->finished() == o.hosts);
    CHECK(w->tables().equal());
    CHECK(w->tables().shared() == o.steps);
  }
  CHECK(quiet.distance(whole) < 5e-5);
  for (o.victim = 0; o.victim < o.hosts; ++o.victim) {
    for (o.dies_at = founded; o.dies_at < quiet.at(o.victim).calls; o.dies_at += 9) {
      CAPTURE(o.victim, o.dies_at);
      tied_world exact{o, two, dense}, lossy{o, two, coded};
      for (tied_world* w : {&exact, &lossy}) {
        w->wanted = o.hosts - 1;
        w->boot();
        w->run();
        CHECK(errors_of(*w, o.hosts).empty());
        CHECK(w->finished() >= o.hosts - 1);
        CHECK(w->tables().equal());
      }
      CHECK(exact.distance(whole) < 5e-5);
    }
  }
}

TEST_CASE("tied tables: where micro-batches take detours, a policy's means are those of the whole batch",
          "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.hosts = 6;
  o.layers = 6;
  o.micro_batches = 7;
  o.steps = 5;
  o.victim = GENERATE(0U, 1U, 2U, 3U, 4U, 5U);
  const std::int64_t stages = GENERATE(2, 3);
  const stage::recovery::reroute recovery{stages};
  const auto dense = [] { return comm::rounds{axis::every{1}, axis::gradient{}, axis::all_reduce<>{}}; };
  const auto coded = [] { return comm::every_step<compress::block_int8>{}; };
  const auto whole = unsplit(o);
  std::size_t detours = 0;
  for (o.dies_at = 240; o.dies_at < 480; o.dies_at += 40) {
    CAPTURE(o.victim, o.dies_at, stages);
    tied_world exact{o, recovery, dense}, lossy{o, recovery, coded};
    for (tied_world* w : {&exact, &lossy}) {
      w->wanted = o.hosts - 1;
      w->boot();
      w->run();
      CHECK(errors_of(*w, o.hosts).empty());
      CHECK(w->finished() >= o.hosts - 1);
      CHECK(w->tables().equal());
    }
    CHECK(exact.distance(whole) < 5e-5);
    for (const auto& [step, layout] : exact.at(o.victim == 0 ? 1 : 0).layouts) detours += layout.has_unassigned() ? 1 : 0;
  }
  CHECK(detours > 0);
}

}}  // namespace causeway
