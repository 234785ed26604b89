// SPDX-License-Identifier: Apache-2.0
// Recoveries whose layouts are cut apart, with replicas that take steps of their own: each block is a row by itself.
#include <causeway/parallel/local_pipeline.hpp>

#include <causeway/presets/compressed.hpp>
#include <causeway/presets/gossip.hpp>
#include <causeway/presets/local_updates.hpp>
#include <causeway/stage/recovery_redundant.hpp>
#include <causeway/stage/recovery_redundant_forward.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "parallel/elastic/elastic_cases.hpp"
#include "parallel/elastic/local_pipeline_world.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "support/catch.hpp"

using namespace causeway;
using support::elastic_world_options;
using support::local_world;
using support::parameters;

namespace {

/// Peers that have their own stage and the one behind it.
template <class Options>
struct redundant_with : Options {
  static auto recovery() { return stage::recovery::redundant{2}; }
  static elastic_world_options world() { return support::two_pipelines(); }
};
using redundant = redundant_with<presets::diloco_options>;
struct three_redundant : presets::diloco_options {
  static auto recovery() { return stage::recovery::redundant{3}; }
  static elastic_world_options world() {
    auto o = support::two_pipelines();
    o.hosts = 3;
    o.layers = 6;
    return o;
  }
};
/// Of a row the largest entries are sent; the rest is kept.
using sparse_redundant = redundant_with<presets::sparse_loco_options>;
/// The same, whose steps go on in the middle when a peer is lost; the last peer has the first stage, too.
struct forward_redundant : redundant {
  static auto recovery() { return stage::recovery::redundant_forward{2}; }
};
struct three_forward_redundant : three_redundant {
  static auto recovery() { return stage::recovery::redundant_forward{3}; }
};
struct sparse_forward_redundant : sparse_redundant {
  static auto recovery() { return stage::recovery::redundant_forward{2}; }
};
/// Two clusters of whoever holds a block, computing it or not.
struct ravnest_redundant : redundant_with<presets::ravnest_options> {
  ravnest_redundant() { clusters.clear(); }
};
/// Five peers are pipelines of two stages and of three; four are two of two.
struct templates : presets::diloco_options {
  static auto recovery() { return support::three_block_templates(); }
  static elastic_world_options world() {
    auto o = support::two_pipelines();
    o.hosts = 5;
    o.layers = 6;
    o.micro_batches = 10;
    return o;
  }
};

/// `Options` in its world, while the victim is killed at every `every`th call and does not come back. `judge(world)` looks
/// at the run.
template <class Options>
void kill_at_calls(std::uint64_t every, const std::function<void(support::any_elastic_world&)>& judge) {
  auto o = Options::world();
  for (std::uint32_t victim = 0; victim < o.hosts; ++victim) {
    for (std::uint64_t n = (victim == 0 ? 2 : 1) * support::founded + victim;; n += every) {
      INFO("host " << victim << " is killed at call " << n);
      o.victim = victim;
      o.dies_at = n;
      local_world<Options> w{o};
      w.wanted = o.hosts - 1;
      w.boot();
      w.run();
      if (w.at(victim).calls <= n) break;  // it has outlived the run
      CHECK(support::errors_of(w, o.hosts).empty());
      CHECK(w.finished() >= o.hosts - 1);
      judge(w);
    }
  }
}

}  // namespace

TEST_CASE("local pipelines cut apart: two of different length make DiLoCo of two whole models",
          "[parallel][elastic][fast]") {
  const auto o = templates::world();
  local_world<templates> w{o};
  w.boot();
  w.run();
  REQUIRE(w.finished() == o.hosts);
  const auto& replicas = w.at(0).layouts.at(o.steps).replicas;
  REQUIRE(replicas.size() == 2);
  CHECK(replicas[0].assignments.size() != replicas[1].assignments.size());
  const parameters is = support::holders_agree(w, o.hosts);
  CHECK(support::off(is, support::diloco_of_two_models(o, replicas[0].micro_batches, replicas[1].micro_batches), o.layers) <
        1e-4);
}

TEST_CASE("local pipelines cut apart: redundant stages change no bit of a run without losses",
          "[parallel][elastic][fast]") {
  const auto o = support::two_pipelines();
  const parameters regrouped = support::undisturbed<presets::diloco_options>(o);
  CHECK(support::undisturbed<redundant>(o) == regrouped);
  CHECK(support::undisturbed<forward_redundant>(o) == regrouped);
}

TEMPLATE_TEST_CASE("local pipelines cut apart: a lost peer of redundant ones costs no step", "[parallel][elastic][fast]",
                   redundant, three_redundant, forward_redundant, three_forward_redundant) {
  const auto o = TestType::world();
  const parameters quiet = support::undisturbed<TestType>(o);
  kill_at_calls<TestType>(61, [&](support::any_elastic_world& w) {
    for (std::uint32_t h = 0; h < o.hosts; ++h) CHECK(w.at(h).resumed == 0);  // given up
    CHECK(support::off(support::holders_agree(w, o.hosts), quiet, o.layers) < 1e-3);
  });
}

TEMPLATE_TEST_CASE("local pipelines cut apart: who is lost at any moment of an exchange leaves all rows alike",
                   "[parallel][elastic][fast]", redundant, forward_redundant) {
  auto o = TestType::world();
  o.victim = 1;
  for (o.dies_at = 200; o.dies_at < 230; ++o.dies_at) {  // the first round's exchange, and a step before it
    INFO("call " << o.dies_at);
    local_world<TestType> w{o};
    w.wanted = o.hosts - 1;
    w.boot();
    w.run();
    CHECK(w.finished() == o.hosts - 1);
    support::holders_agree(w, o.hosts);
  }
}

TEMPLATE_TEST_CASE("local pipelines cut apart: the run goes on, whoever is killed at whichever network call",
                   "[parallel][elastic][fast]", redundant, sparse_redundant, forward_redundant, sparse_forward_redundant,
                   templates) {
  support::goes_on_whoever_is_killed<TestType>(97, 0.03, TestType::world());
}
TEMPLATE_TEST_CASE("local pipelines cut apart: all presets whose blocks can be rows go on, whoever is killed",
                   "[parallel][elastic][fast]", redundant_with<presets::open_diloco_options>,
                   redundant_with<presets::intellect1_options>, redundant_with<presets::muloco_options>,
                   redundant_with<presets::local_sgd_options>, ravnest_redundant) {
  // A ring of four for each block takes more calls than other exchanges do.
  support::goes_on_whoever_is_killed<TestType>(197, 0.03, TestType::world(), 3 * support::founded);
}
TEMPLATE_TEST_CASE("local pipelines cut apart: whoever is killed, at network calls all over the run", "[parallel][elastic]",
                   redundant, sparse_redundant, forward_redundant, sparse_forward_redundant, templates) {
  support::goes_on_whoever_is_killed<TestType>(23, 0.03, TestType::world());
}

TEMPLATE_TEST_CASE("local pipelines cut apart: a peer may come in every step", "[parallel][elastic][fast]", redundant,
                   sparse_redundant, forward_redundant, sparse_forward_redundant) {
  support::newcomer_in_each_step<local_world<TestType>>(4, 12, support::make_two_pipelines);
}
TEST_CASE("local pipelines cut apart: a peer that comes makes one of them longer", "[parallel][elastic][fast]") {
  auto o = templates::world();
  o.late = {4};
  o.steps = 15;
  for (std::uint64_t at = 1; at <= 4; ++at) {
    INFO("it comes before step " << at);
    std::function<void()> come;
    o.before_step = [&](std::uint32_t, std::uint64_t step) {
      if (step == at && come) std::exchange(come, nullptr)();
    };
    local_world<templates> w{o};
    come = [&] { w.boot(4); };
    w.boot();
    w.run();
    CHECK(support::errors_of(w, o.hosts).empty());
    CHECK(w.finished() == o.hosts);
    support::holders_agree(w, o.hosts);
    CHECK(w.at(4).received > 0);
    CHECK(w.at(0).layouts.at(1).assigned().size() == 4);
    CHECK(w.at(0).layouts.at(o.steps).assigned().size() == 5);
  }
}

TEMPLATE_TEST_CASE("local pipelines cut apart: checkpoints go on with the same bits", "[parallel][elastic][fast]",
                   redundant, sparse_redundant, forward_redundant, sparse_forward_redundant) {
  support::goes_on_from_checkpoints<TestType>();
}
