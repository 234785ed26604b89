// SPDX-License-Identifier: Apache-2.0
// Recoveries whose layouts are cut alike, with replicas that take steps of their own.
#include <causeway/parallel/local_pipeline.hpp>

#include <causeway/presets/local_updates.hpp>
#include <causeway/stage/recovery_neighbour.hpp>
#include <causeway/stage/recovery_swapped.hpp>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "parallel/elastic/elastic_cases.hpp"
#include "parallel/elastic/local_pipeline_world.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "support/catch.hpp"

using namespace causeway;
using support::elastic_world_options;
using support::local_world;

namespace {

struct morphing : presets::diloco_options {
  static auto recovery() { return support::two_block_morph(); }
};
struct proactive : presets::diloco_options {
  static auto recovery() { return support::two_block_proactive(3); }
};
struct two_neighbours : presets::diloco_options {
  static auto recovery() { return stage::recovery::neighbour_init{{.stages = 2}}; }
};
struct three_neighbours : presets::diloco_options {
  static auto recovery() { return stage::recovery::neighbour_init{}; }
};
struct rings : presets::diloco_options {
  static auto recovery() { return stage::recovery::swapped_neighbours{}; }
};

/// The same, with pseudo-gradients in fragments of equal size, one in each step.
template <class Recovering>
struct in_fragments {
  static auto recovery() { return Recovering::recovery(); }
  static auto policy() { return comm::rounds{axis::staggered{3}, axis::balanced{3}, axis::outer<optim::nesterov>{0.4F}}; }
};

/// Of several, as a program's: whether it is one that makes stages up is not known before it runs.
struct chosen_recovery : stage::recovery::neighbour_init {
  static inline bool chosen = false;
  static inline double heard = 0;  ///< of how far peers' blocks moved

  chosen_recovery() : neighbour_init{{.stages = 2}} {}
  [[nodiscard]] static bool makes_up() { return chosen; }
  result<stage::layout> arrange(const stage::cluster_snapshot& g) {
    for (const auto& p : g.peers) heard = std::accumulate(p.squares.begin(), p.squares.end(), heard);
    return neighbour_init::arrange(g);
  }
};
struct choosing : presets::diloco_options {
  static auto recovery() { return chosen_recovery{}; }
};

}  // namespace

TEMPLATE_TEST_CASE("local pipeline recoveries: the run goes on, whoever is killed at whichever network call",
                   "[parallel][elastic][fast]", morphing, proactive, two_neighbours, in_fragments<morphing>,
                   in_fragments<two_neighbours>) {
  support::goes_on_whoever_is_killed<TestType>(97, 0.03);
}

TEMPLATE_TEST_CASE("local pipeline recoveries: whoever is killed, at network calls all over the run", "[parallel][elastic]",
                   morphing, proactive, two_neighbours) {
  support::goes_on_whoever_is_killed<TestType>(41, 0.03);
}

TEMPLATE_TEST_CASE("local pipeline recoveries: a peer may come in every step", "[parallel][elastic][fast]", morphing,
                   proactive) {
  support::newcomer_in_each_step<local_world<TestType>>(4, 12, support::make_two_pipelines);
}

TEMPLATE_TEST_CASE("local pipeline recoveries: checkpoints go on with the same bits", "[parallel][elastic][fast]", morphing,
                   proactive, two_neighbours) {
  support::goes_on_from_checkpoints<TestType>();
}

TEMPLATE_TEST_CASE("local pipeline recoveries: a stage that nobody has any more is made up from its neighbours",
                   "[parallel][elastic][fast]", three_neighbours, in_fragments<three_neighbours>) {
  std::string said;
  elastic_world_options o = support::three_stages_lose_one(GENERATE(0U, 1U, 2U, 3U), said);
  o.steps = 9;
  const std::uint64_t step = GENERATE(4U, 5U);  // of the second round
  CAPTURE(step);
  support::any_elastic_world* all = nullptr;
  support::dies_before_step(o, all, step);
  local_world<TestType> w{o};
  all = &w;
  w.wanted = 3;
  w.boot();
  w.run(std::chrono::minutes{2});
  support::check_made_up(w, o, said);
  support::holders_agree(w, o.hosts);
}

TEMPLATE_TEST_CASE("local pipeline recoveries: rings go on, or make up what they lose", "[parallel][elastic][fast]", rings,
                   in_fragments<rings>) {
  support::rings_go_on<local_world<TestType>>();
}

TEST_CASE("local pipeline recoveries: how far blocks move is kept where stages may be made up, and only there",
          "[parallel][elastic][fast]") {
  chosen_recovery::chosen = GENERATE(true, false);
  chosen_recovery::heard = 0;
  elastic_world_options o;
  o.steps = 9;
  local_world<choosing> w{o};
  w.boot();
  w.run(std::chrono::minutes{2});
  REQUIRE(w.finished() == o.hosts);
  CHECK((chosen_recovery::heard > 0) == chosen_recovery::chosen);
}
