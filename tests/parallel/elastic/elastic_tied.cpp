// SPDX-License-Identifier: Apache-2.0
// Elastic pipelines of a model whose output layer is the token table, in whole runs: whoever is killed, and whenever, the
// run comes to the unsplit model, and all who hold the table at either end hold the same bits of it and its moments.
#include <causeway/parallel/elastic_pipeline.hpp>

#include <causeway/stage/recovery_neighbour.hpp>
#include <causeway/stage/recovery_redundant.hpp>
#include <causeway/stage/recovery_redundant_forward.hpp>
#include <causeway/stage/recovery_reroute.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "parallel/elastic/elastic_tied_world.hpp"
#include "support/catch.hpp"

namespace causeway {
namespace {

using namespace tied_tables;

struct undisturbed_run {
  support::trained_model whole;  // unsplit
  support::trained_model split;
  std::uint64_t calls = 0;  // of the victim
};

template <class Recovery>
undisturbed_run undisturbed(elastic_world_options o, const Recovery& recovery, bool everybody_has_both) {
  o.dies_at = UINT64_MAX;
  undisturbed_run all{unsplit(o), {}, 0};
  tied_world w{o, recovery};
  w.boot();
  w.run();
  all.calls = w.at(o.victim).calls;
  check_result(w, o, o.hosts, all.whole);
  CHECK(w.tables().shared() == (everybody_has_both ? 0 : o.steps));
  for (std::uint32_t h = 0; h < o.hosts; ++h) {
    for (const auto& [name, values] : w.at(h).parameters) all.split.parameters[name] = values;
    for (const auto& [step, loss] : w.at(h).losses) {
      all.split.losses.resize(o.steps);
      all.split.losses[step - 1] = loss;
    }
  }
  return all;
}

// Kills the victim at `kills` network calls spread over the run, from the `from`th on.
template <class Recovery>
void kill_through(elastic_world_options o, const Recovery& recovery, std::uint64_t from, std::uint64_t kills,
                  bool everybody_has_both = false) {
  const auto quiet = undisturbed(o, recovery, everybody_has_both);
  for (std::uint64_t k = 0; k < kills; ++k) {
    o.dies_at = from + k * (quiet.calls - from) / kills;
    CAPTURE(o.victim, o.dies_at);
    tied_world w{o, recovery};
    w.wanted = o.hosts - 1;
    w.boot();
    w.run();
    check_result(w, o, o.hosts - 1, quiet.whole);
  }
}

}  // namespace

TEST_CASE("tied tables: a peer killed at any network call costs nothing that was committed", "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.victim = GENERATE(0U, 3U);
  kill_through(o, stage::recovery::regroup{2}, founded, 60);
}

TEST_CASE("tied tables: redundant pipelines keep them at both ends, and on one peer", "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.hosts = GENERATE(3U, 4U);
  o.layers = 6;
  o.victim = GENERATE(0U, 2U);
  kill_through(o, stage::recovery::redundant{o.hosts == 3 ? 3 : 2}, founded, 8, o.hosts == 4);
}

TEST_CASE("tied tables: pipelines from templates", "[parallel][elastic][fast]") {
  elastic_world_options o = five_peers();
  o.victim = GENERATE(1U, 4U);
  kill_through(o, support::three_block_templates(), founded, 6);
}

TEST_CASE("tied tables: morphing and proactive pipelines", "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.hosts = 5;
  o.victim = GENERATE(0U, 4U);
  kill_through(o, support::two_block_morph(), founded, 5);
  kill_through(o, support::two_block_proactive(2), founded, 5);
}

TEST_CASE("tied tables: rerouting pipelines", "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.hosts = 6;
  o.micro_batches = 6;
  o.victim = GENERATE(0U, 3U);
  kill_through(o, stage::recovery::reroute{2}, 2 * founded, 6);
}

// With two stages every peer keeps both ends: what its successor's stage has given stays apart.
TEST_CASE("tied tables: a step that is gone on with leaves the bits of the undisturbed run", "[parallel][elastic][fast]") {
  elastic_world_options o;
  const std::int64_t stages = GENERATE(2, 3);
  o.hosts = GENERATE(3U, 4U);
  o.layers = 6;
  o.micro_batches = 6;
  o.clip_norm = 0;  // a norm is added up over peers, and rounded with their number
  o.victim = GENERATE(0U, 1U);
  o.steps = 5;
  const bool one_pipeline = o.hosts < 2 * stages;
  const stage::recovery::redundant_forward recovery{stages};
  const auto quiet = undisturbed(o, recovery, stages == 2);
  std::uint64_t resumed = 0;
  for (std::uint64_t n = founded + 20; n < quiet.calls; n += 13) {
    o.dies_at = n;
    CAPTURE(stages, o.hosts, o.victim, n);
    tied_world w{o, recovery};
    w.wanted = o.hosts - 1;
    w.boot();
    w.run();
    check_result(w, o, o.hosts - 1, quiet.whole);
    if (one_pipeline) CHECK(w.distance(quiet.split) == 0);
    for (std::uint32_t h = 0; h < o.hosts; ++h) resumed += w.at(h).resumed;
  }
  CHECK(resumed > 0);
}

TEST_CASE("tied tables: a stage in the middle is made up from its neighbours, whose table stays",
          "[parallel][elastic][fast]") {
  std::string said;
  const elastic_world_options o = support::three_stages_lose_one(GENERATE(0U, 1U, 2U, 3U), said);
  tied_world w{o, stage::recovery::neighbour_init{}};
  w.wanted = 3;
  w.boot();
  w.run(std::chrono::minutes{2});
  support::check_made_up(w, o, said);  // without an end: the other has the table, but nobody the stage's blocks
  CHECK(w.tables().equal());
  if (w.finished() == 3) CHECK(w.tables().shared() == o.steps);
}

TEST_CASE("tied tables: a run that loses an end goes back to what is saved", "[parallel][elastic][fast]") {
  elastic_world_options o = support::saved_every_other_step();
  o.evaluations = 1;
  o.victim = GENERATE(0U, 1U, 2U, 3U);
  o.dies_at = GENERATE(200U, 261U);
  tied_world w{o, stage::recovery::regroup{3}};
  w.wanted = 3;
  w.boot();
  w.run();
  const auto whole = unsplit(o);
  check_result(w, o, 3, whole);
  support::check_went_back(w, o);
  for (std::uint32_t h = 0; h < o.hosts; ++h) {
    if (w.at(h).finished) CHECK(w.at(h).evaluated.at(o.steps) == Approx(whole.evaluated).epsilon(1e-5));
  }
}

TEST_CASE("tied tables: a run whose peers are all stopped goes on from what is saved", "[parallel][elastic][fast]") {
  support::stop_all_and_start_again(
      [](const elastic_world_options& o) {
        return tied_world{o, stage::recovery::regroup{2}};
      },
      [](auto& w, const elastic_world_options& o) { check_result(w, o, o.hosts, unsplit(o)); });
}

}  // namespace causeway
