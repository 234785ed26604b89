// SPDX-License-Identifier: Apache-2.0
// Recoveries whose layouts are cut apart, with policies of every kind: fragments, tensors and groups, each block by itself.
#include <causeway/comm/stacked.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/gossip.hpp>
#include <causeway/presets/local_updates.hpp>
#include <causeway/presets/overlapped.hpp>
#include <causeway/stage/recovery_redundant.hpp>
#include <causeway/stage/recovery_redundant_forward.hpp>

#include <cstdint>

#include "parallel/elastic/elastic_cases.hpp"
#include "parallel/elastic/local_pipeline_world.hpp"
#include "parallel/elastic/movement_policies.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "support/catch.hpp"
#include "support/groups_by_hand.hpp"

using namespace causeway;
using support::co_learning;
using support::cocodc;
using support::elastic_world_options;

namespace {

template <class Options>
struct apart : Options {
  static auto recovery() { return stage::recovery::redundant{2}; }
};
template <class Options>
struct apart_forward : Options {
  static auto recovery() { return stage::recovery::redundant_forward{2}; }
};
template <class Options>
struct apart_by_templates : Options {
  static auto recovery() { return support::three_block_templates(); }
};

template <class Options>
struct tied : Options {
  static constexpr bool tie = true;
};

/// Four replicas of two stages: pairs are not everybody.
elastic_world_options four_pipelines() {
  auto o = support::two_pipelines();
  o.hosts = 8;
  return o;
}

struct nesterov : axis::outer<optim::nesterov> {
  nesterov() : axis::outer<optim::nesterov>{0.4F, optim::nesterov{{.momentum = 0.9F}}} {}
};
/// Fragments of equal size that take turns, by the context's mean.
struct in_fragments {
  [[nodiscard]] static auto policy() { return comm::rounds{axis::staggered{6}, axis::balanced{3}, axis::outer<>{0.4F}}; }
};
/// Fragments of blocks, whose rows are made before their results are wanted.
struct in_delayed_fragments {
  [[nodiscard]] static auto policy() {
    return comm::rounds{axis::staggered{6}, axis::strided{2}, axis::gather_mean<>{}, axis::delayed{3, 0.5F},
                        axis::outer<>{0.4F}};
  }
};
/// Parameters of equal fragments, together; the run ends with a mean of all.
struct in_parameters {
  [[nodiscard]] static auto policy() {
    return comm::rounds{axis::every{support::steps_of_round}, axis::balanced{3}, axis::parameters{}};
  }
};
/// Applied a round late, and this peer's own part at once.
struct a_round_late {
  [[nodiscard]] static auto policy() {
    return comm::rounds{axis::every{2}, axis::gather_mean<>{}, axis::one_round_late{}, axis::outer<>{0.4F}};
  }
};
struct eager : presets::eager_diloco_options {
  [[nodiscard]] auto policy() const {
    return comm::rounds{axis::every{2}, axis::split_mean<>{}, axis::eager{}, axis::outer<>{0.4F}};
  }
};
/// Means of all parameters, and DiLoCo.
struct two_policies {
  [[nodiscard]] static auto policy() {
    return comm::stacked{comm::rounds{axis::every{2}, axis::parameters{}, axis::gather_mean<>{}},
                         comm::rounds{axis::every{support::steps_of_round}, axis::gather_mean<>{}, axis::outer<>{0.7F}}};
  }
};
struct des_loc : presets::des_loc_options {
  des_loc() : presets::des_loc_options{3, 6, 9} {}
};
struct sparta : presets::sparta_options {
  sparta() { share = 0.5; }
};
struct sparta_diloco : presets::sparta_diloco_options {
  static constexpr bool has_own_rounds = true;
  sparta_diloco() {
    sparta.share = 0.2;
    local_steps = support::steps_of_round;
  }
};
struct streaming : presets::streaming_diloco_options {
  static constexpr bool has_own_rounds = true;
  streaming() { local_steps = 6, overlap_steps = 3; }
};

}  // namespace

TEMPLATE_TEST_CASE("local pipelines cut apart: blocks by themselves come to what whole stages do",
                   "[parallel][elastic][fast]", in_fragments, in_delayed_fragments, in_parameters, a_round_late, eager,
                   two_policies, des_loc, co_learning, cocodc, presets::fedavg_options) {
  auto o = support::two_pipelines();
  o.steps = 13;
  const auto whole = support::undisturbed<TestType>(o);
  CHECK(support::off(support::undisturbed<apart<TestType>>(o), whole, o.layers) < 1e-4);
  CHECK(support::off(support::undisturbed<apart_forward<TestType>>(o), whole, o.layers) < 1e-4);
}

TEMPLATE_TEST_CASE("local pipelines: a table of both ends is a block of its own, whatever the policy",
                   "[parallel][elastic][fast]", in_fragments, in_parameters, two_policies, des_loc, co_learning, cocodc) {
  auto o = support::two_pipelines();
  o.tie = true;
  o.steps = 12;
  const auto whole = support::of_two_peers(o, support::policy_of<TestType>);
  CHECK(support::off(support::undisturbed<tied<TestType>>(o), whole, o.layers) < 1e-4);
  CHECK(support::off(support::undisturbed<tied<apart<TestType>>>(o), whole, o.layers) < 1e-4);
}

TEMPLATE_TEST_CASE("local pipelines cut apart: all blocks of a replica meet those of the same other replicas",
                   "[parallel][elastic][fast]", support::moshpit, support::gossip_in_pairs, support::gossip_in_segments) {
  auto o = four_pipelines();
  o.steps = 9;
  const auto whole = support::undisturbed<TestType>(o);
  CHECK(support::off(support::undisturbed<apart<TestType>>(o), whole, o.layers) < 1e-4);
}

TEMPLATE_TEST_CASE("local pipelines cut apart: policies of every kind go on, whoever is killed",
                   "[parallel][elastic][fast]", apart<presets::fedavg_options>, apart<co_learning>, apart<des_loc>,
                   apart<presets::edit_options>, apart<streaming>, apart<presets::eager_diloco_options>, apart<cocodc>,
                   apart<sparta>, apart<sparta_diloco>, apart<presets::cocktail_sgd_options>, apart<presets::gaia_options>,
                   apart<support::moshpit>, apart<presets::noloco_options>, apart<presets::bacombo_options>) {
  support::goes_on_whoever_is_killed<TestType>(397, 0.03, support::two_pipelines(), 5 * support::founded);
}
TEMPLATE_TEST_CASE("local pipelines: with a table of both ends policies of other kinds go on, whoever is killed",
                   "[parallel][elastic][fast]", tied<presets::gaia_options>, tied<presets::edit_options>,
                   tied<apart<cocodc>>) {
  support::goes_on_whoever_is_killed<TestType>(397, 0.05, support::two_pipelines(), 5 * support::founded);
}
TEMPLATE_TEST_CASE("local pipelines cut apart: policies of every kind, whoever is killed all over the run",
                   "[parallel][elastic]", apart<presets::fedavg_options>, apart<presets::photon_options>,
                   apart<co_learning>, apart<des_loc>, apart<presets::edit_options>, apart<streaming>,
                   apart<presets::eager_diloco_options>, apart<cocodc>, apart<sparta>, apart<sparta_diloco>,
                   apart<presets::cocktail_sgd_options>, apart<presets::gaia_options>, apart<presets::moshpit_sgd_options>,
                   apart<presets::noloco_options>, apart<presets::bacombo_options>) {
  support::goes_on_whoever_is_killed<TestType>(97, 0.03, support::two_pipelines(), 5 * support::founded);
  support::lets_newcomers_in<TestType>();
  support::goes_on_from_checkpoints<TestType>();
}
TEMPLATE_TEST_CASE("local pipelines cut apart: policies of every kind, where steps are gone on with in the middle",
                   "[parallel][elastic]", apart_forward<des_loc>, apart_forward<presets::edit_options>,
                   apart_forward<presets::eager_diloco_options>, apart_forward<cocodc>, apart_forward<sparta_diloco>,
                   apart_forward<presets::gaia_options>, apart_forward<presets::noloco_options>) {
  support::goes_on_whoever_is_killed<TestType>(89, 0.03, support::two_pipelines(), 5 * support::founded);
}
TEMPLATE_TEST_CASE("local pipelines cut apart: policies of every kind, in pipelines of two lengths", "[parallel][elastic]",
                   apart_by_templates<des_loc>, apart_by_templates<presets::edit_options>,
                   apart_by_templates<presets::eager_diloco_options>, apart_by_templates<cocodc>,
                   apart_by_templates<sparta_diloco>, apart_by_templates<presets::gaia_options>,
                   apart_by_templates<presets::noloco_options>) {
  auto o = support::two_pipelines();
  o.hosts = 5;
  o.layers = 6;
  o.micro_batches = 10;
  support::goes_on_whoever_is_killed<TestType>(89, 0.03, o, 5 * support::founded);
}

TEMPLATE_TEST_CASE("local pipelines cut apart: policies of every kind, whoever is lost at every seventh network call",
                   "[parallel][elastic][slow][every_call]", apart<presets::photon_options>, apart<co_learning>,
                   apart<des_loc>, apart<presets::edit_options>, apart<streaming>, apart<presets::eager_diloco_options>,
                   apart<cocodc>, apart<sparta>, apart<sparta_diloco>, apart<presets::cocktail_sgd_options>,
                   apart<presets::gaia_options>, apart<presets::moshpit_sgd_options>, apart<presets::noloco_options>,
                   apart<presets::bacombo_options>) {
  support::goes_on_whoever_is_killed<TestType>(7, 0.03, support::two_pipelines(), 5 * support::founded);
}
