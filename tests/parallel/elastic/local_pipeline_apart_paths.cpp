// SPDX-License-Identifier: Apache-2.0
// Recoveries whose layouts are cut apart, with models of modules: each version of a block is a row by itself, of those who
// hold the block.
#include <causeway/presets/modular.hpp>
#include <causeway/stage/recovery_redundant.hpp>
#include <causeway/stage/recovery_redundant_forward.hpp>

#include <cstdint>

#include "parallel/elastic/elastic_cases.hpp"
#include "parallel/elastic/local_pipeline_world.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "parallel/elastic/paths_in_stages.hpp"
#include "support/catch.hpp"

using namespace causeway;
using support::elastic_world_options;

namespace {

template <class Options>
struct apart : Options {
  static auto recovery() { return stage::recovery::redundant{2}; }
  static elastic_world_options world() { return support::two_pipelines(); }
};
template <class Options>
struct apart_forward : apart<Options> {
  static auto recovery() { return stage::recovery::redundant_forward{2}; }
};
/// Pipelines of two stages and of three.
template <class Options>
struct apart_by_templates : Options {
  static auto recovery() { return support::three_block_templates(); }
  static elastic_world_options world() {
    auto o = support::two_pipelines();
    o.hosts = 5;
    o.layers = 6;
    return o;
  }
};
template <class Options>
struct alike : Options {
  static elastic_world_options world() { return support::two_pipelines(); }
};
/// Both ends of the model share the token table.
template <class Options>
struct tied : Options {
  static constexpr bool tie = true;
};
/// In levels of two blocks, the second of which both paths share.
struct three_levels : presets::dipaco_options {
  three_levels() { paths = {{0, 0, 0, 0}, {0, 1, 0, 1}}, blocks_per_level = 2, outer_momentum = 0.5F; }
};
using support::paths_apart;
using support::two_paths;
using support::weighted_paths;

}  // namespace

TEMPLATE_TEST_CASE("local pipelines cut apart: each is on a path, and modules move by those that have them",
                   "[parallel][elastic][fast]", apart<two_paths>, apart<weighted_paths>, apart<paths_apart>,
                   apart_forward<two_paths>, apart_by_templates<paths_apart>, apart_by_templates<three_levels>) {
  support::check_paths_by_hand<TestType, 2>(TestType::world());
}
TEMPLATE_TEST_CASE("local pipelines: with paths a table of both ends is a block of its own", "[parallel][elastic][fast]",
                   tied<alike<two_paths>>, tied<apart<paths_apart>>, tied<apart_by_templates<three_levels>>) {
  auto o = TestType::world();
  o.tie = true;
  support::check_paths_by_hand<TestType, 2>(o);
}
TEMPLATE_TEST_CASE("local pipelines cut apart: of twice as many as paths two are on each", "[parallel][elastic][fast]",
                   apart<two_paths>, apart<weighted_paths>) {
  auto o = TestType::world();
  o.hosts = 8;
  support::check_paths_by_hand<TestType, 4>(o);
}
TEMPLATE_TEST_CASE("local pipelines cut apart: of three on two paths two have half as much each, and count so",
                   "[parallel][elastic][fast]", alike<weighted_paths>, apart<two_paths>, apart<weighted_paths>) {
  auto o = TestType::world();
  o.hosts = 6;
  support::check_paths_by_hand<TestType, 3>(o);
}

TEST_CASE("local pipelines cut apart: with paths redundant stages change no bit of a run without losses",
          "[parallel][elastic][fast]") {
  const auto o = support::two_pipelines();
  const auto regrouped = support::undisturbed<two_paths>(o);
  CHECK(support::undisturbed<apart<two_paths>>(o) == regrouped);
  CHECK(support::undisturbed<apart_forward<two_paths>>(o) == regrouped);
}

TEMPLATE_TEST_CASE("local pipelines cut apart: with paths a lost peer of redundant ones costs no step",
                   "[parallel][elastic][fast]", apart<two_paths>, apart_forward<two_paths>) {
  auto o = TestType::world();
  for (o.victim = 0; o.victim < o.hosts; ++o.victim) {
    for (o.dies_at = (o.victim == 0 ? 3 : 2) * support::founded + o.victim;; o.dies_at += 61) {
      INFO("host " << o.victim << " is killed at call " << o.dies_at);
      support::local_world<TestType> w{o};
      w.wanted = o.hosts - 1;
      w.boot();
      w.run();
      if (w.at(o.victim).calls <= o.dies_at) break;  // it has outlived the run
      CHECK(support::errors_of(w, o.hosts).empty());
      CHECK(w.finished() >= o.hosts - 1);
      for (std::uint32_t h = 0; h < o.hosts; ++h) CHECK(w.at(h).resumed == 0);  // given up
      support::holders_agree(w, o.hosts);
    }
  }
}

TEMPLATE_TEST_CASE("local pipelines cut apart: paths go on, whoever is killed all over the run", "[parallel][elastic]",
                   apart<two_paths>, apart<paths_apart>, apart_forward<weighted_paths>, apart_by_templates<three_levels>,
                   tied<apart<two_paths>>) {
  support::goes_on_whoever_is_killed<TestType>(61, 0.03, TestType::world(), 5 * support::founded);
}
TEMPLATE_TEST_CASE("local pipelines cut apart: paths let others in", "[parallel][elastic][fast]", apart<two_paths>,
                   apart_forward<paths_apart>) {
  // One pipeline has half of each batch to train, and makes steps in half the time.
  support::newcomer_in_each_step<support::local_world<TestType>>(4, 21, support::make_two_pipelines);
}
TEMPLATE_TEST_CASE("local pipelines cut apart: paths go on from checkpoints with the same bits",
                   "[parallel][elastic][fast]", apart<two_paths>, apart_forward<weighted_paths>) {
  support::goes_on_from_checkpoints<TestType>();
}

TEMPLATE_TEST_CASE("local pipelines cut apart: paths, whoever is lost at every seventh network call",
                   "[parallel][elastic][slow][every_call]", apart<two_paths>, apart_forward<two_paths>,
                   apart_by_templates<paths_apart>) {
  support::goes_on_whoever_is_killed<TestType>(7, 0.03, TestType::world(), 5 * support::founded);
}
