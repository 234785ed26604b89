// SPDX-License-Identifier: Apache-2.0
// Recoveries whose layouts are cut alike, with gradients that a communication policy exchanges among the holders of a
// stage.
#include <causeway/parallel/elastic_pipeline.hpp>

#include <causeway/presets/compressed.hpp>
#include <causeway/stage/recovery_neighbour.hpp>
#include <causeway/stage/recovery_reroute.hpp>
#include <causeway/stage/recovery_swapped.hpp>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>

#include "parallel/elastic/elastic_cases.hpp"
#include "parallel/elastic/gradient_world.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "support/catch.hpp"

using namespace causeway;
using support::elastic_world_options;
using support::gradient_world;

namespace {

// Rows with a residual, which stays with a peer while it has the same blocks.
struct largest_with_feedback {
  using codec = compress::sparse<compress::no_transform, compress::top_k, compress::none>;
  static auto make() {
    return comm::rounds{axis::every{1}, axis::gradient{}, axis::error_feedback{},
                        axis::gather_mean<codec>{codec{compress::no_transform{}, compress::top_k{{.k = 8}}}}};
  }
};
struct morphing : largest_with_feedback {
  static auto recovery() { return support::two_block_morph(); }
};
struct proactive : largest_with_feedback {
  static auto recovery() { return support::two_block_proactive(2); }
};
struct rerouting : largest_with_feedback {
  static auto recovery() { return stage::recovery::reroute{2}; }
};
struct two_neighbours : largest_with_feedback {
  static auto recovery() { return stage::recovery::neighbour_init{{.stages = 2}}; }
};
struct three_neighbours : largest_with_feedback {
  static auto recovery() { return stage::recovery::neighbour_init{}; }
};
// f32: what the means come to is the gradient of the whole batch.
template <std::int64_t Stages>
struct exact_detours {
  static auto make() { return comm::rounds{axis::every{1}, axis::gradient{}, axis::all_reduce<>{}}; }
  static auto recovery() { return stage::recovery::reroute{Stages}; }
};
struct rings : largest_with_feedback {
  static auto recovery() { return stage::recovery::swapped_neighbours{}; }
};

}  // namespace

TEMPLATE_TEST_CASE("gradient recoveries: the run goes on, whoever is killed at whichever network call",
                   "[parallel][elastic][fast]", morphing, proactive, rerouting, two_neighbours) {
  support::goes_on_by_gradients<TestType>(149);
}

TEMPLATE_TEST_CASE("gradient recoveries: whoever is killed, at network calls all over the run", "[parallel][elastic]",
                   morphing, proactive, rerouting, two_neighbours) {
  support::goes_on_by_gradients<TestType>(41);
}

TEMPLATE_TEST_CASE("gradient recoveries: a peer may come in every step", "[parallel][elastic][fast]", morphing, proactive,
                   rerouting) {
  support::newcomer_in_each_step<gradient_world<TestType>>(4, 12, support::make_two_pipelines);
}

TEMPLATE_TEST_CASE("gradient recoveries: checkpoints go on with the same bits", "[parallel][elastic][fast]", morphing,
                   proactive, rerouting, two_neighbours) {
  support::goes_on_with_the_same_bits<TestType>();
}

TEST_CASE("gradient recoveries: a stage that nobody has any more is made up from its neighbours",
          "[parallel][elastic][fast]") {
  std::string said;
  elastic_world_options o = support::three_stages_lose_one(GENERATE(0U, 1U, 2U, 3U), said);
  gradient_world<three_neighbours> w{o};
  w.wanted = 3;
  w.boot();
  w.run(std::chrono::minutes{2});
  support::check_made_up(w, o, said);
  support::holders_agree(w, o.hosts);
}

TEST_CASE("gradient recoveries: rings make the steps that are taken without faults, or make up what they lose",
          "[parallel][elastic][fast]") {
  support::rings_go_on<gradient_world<rings>>();
}

TEST_CASE("gradient recoveries: rows count by the micro-batches that went through a peer, so steps are the unsplit model's",
          "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.hosts = GENERATE(4U, 6U);
  o.micro_batches = 7;
  o.victim = GENERATE(0U, 3U);
  const auto make = [](const elastic_world_options& with_this) { return gradient_world<exact_detours<2>>{with_this}; };
  support::worlds_come_to(make(o).unsplit(), o, make, 2 * support::founded, 8);
}

TEST_CASE("gradient recoveries: a lost peer's micro-batches count with those who computed them, and no block moves",
          "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.hosts = 6;
  o.layers = 6;
  o.micro_batches = 7;
  o.steps = 5;
  o.victim = GENERATE(0U, 1U, 2U, 3U, 4U, 5U);
  o.dies_at = 260;
  gradient_world<exact_detours<3>> w{o};
  w.wanted = 5;
  w.boot();
  w.run();
  CHECK(support::errors_of(w, o.hosts).empty());
  CHECK(w.finished() == 5);
  CHECK(w.distance(w.unsplit()) < 5e-5);
  for (std::uint32_t h = 0; h < o.hosts; ++h) {
    CHECK(w.at(h).received == 0);
    if (h != o.victim) CHECK(w.at(h).layouts.at(o.steps).assigned().size() == 5);
  }
}

TEST_CASE("gradient recoveries: a peer that comes takes the stage that has nobody", "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.steps = 20;
  o.victim = 2;
  o.dies_at = 180;
  o.back_after = std::chrono::milliseconds{200};
  gradient_world<exact_detours<2>> w{o};
  w.boot();
  w.run();
  CHECK(support::errors_of(w, o.hosts).empty());
  CHECK(w.finished() == o.hosts);
  std::size_t rerouted = 0;
  for (const auto& [step, layout] : w.at(0).layouts) rerouted += layout.has_unassigned() ? 1 : 0;
  CHECK(rerouted > 0);
  CHECK_FALSE(w.at(0).layouts.at(o.steps).has_unassigned());
  CHECK(w.distance(w.unsplit()) < 5e-4);  // twenty steps of AdamW amplify the order of sums
}
