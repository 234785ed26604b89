// SPDX-License-Identifier: Apache-2.0
// Recoveries whose layouts are cut alike, with gradients that a communication policy exchanges among the holders of a
// stage.
#include <causeway/parallel/elastic_pipeline.hpp>

#include <causeway/presets/compressed.hpp>
#include <causeway/stage/recovery_neighbour.hpp>
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
struct two_neighbours : largest_with_feedback {
  static auto recovery() { return stage::recovery::neighbour_init{{.stages = 2}}; }
};
struct three_neighbours : largest_with_feedback {
  static auto recovery() { return stage::recovery::neighbour_init{}; }
};
struct rings : largest_with_feedback {
  static auto recovery() { return stage::recovery::swapped_neighbours{}; }
};

}  // namespace

TEMPLATE_TEST_CASE("gradient recoveries: the run goes on, whoever is killed at whichever network call",
                   "[parallel][elastic][fast]", morphing, proactive, two_neighbours) {
  support::goes_on_by_gradients<TestType>(149);
}

TEMPLATE_TEST_CASE("gradient recoveries: whoever is killed, at network calls all over the run",
                   "[parallel][elastic][every_call]", morphing, proactive, two_neighbours) {
  support::goes_on_by_gradients<TestType>(41);
}

TEMPLATE_TEST_CASE("gradient recoveries: a peer may come in every step", "[parallel][elastic][fast]", morphing, proactive) {
  support::newcomer_in_each_step<gradient_world<TestType>>(4, 12, support::make_two_pipelines);
}

TEMPLATE_TEST_CASE("gradient recoveries: checkpoints go on with the same bits", "[parallel][elastic][fast]", morphing,
                   proactive, two_neighbours) {
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
