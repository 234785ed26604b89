// SPDX-License-Identifier: Apache-2.0
// Gradients taken where a peer's own last row would bring its blocks (DisTrO), where pipelines are cut apart, or peers keep
// several stages: each range of blocks is moved by its own row.
#include <causeway/parallel/elastic_pipeline.hpp>

#include <causeway/optim/sgd.hpp>
#include <causeway/presets/compressed.hpp>

#include <cmath>
#include <cstdint>

#include "parallel/elastic/elastic_cases.hpp"
#include "parallel/elastic/gradient_world.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "parallel/elastic/segment_world.hpp"
#include "support/catch.hpp"

using namespace causeway;
using support::elastic_world_options;
using support::gradient_world;
using support::undisturbed_gradients;
using support::world_of;

namespace {

struct distro : support::preset_of<presets::distro_options> {
  static auto inner() { return optim::sgd{}; }
};
using redundant = support::with_redundant<distro>;
using templates = support::with_templates<distro>;

template <class Policy>
void goes_on_whoever_is_killed(std::uint64_t kills) {
  const auto quiet = world_of<Policy>();
  const double loss = support::held_out_loss(undisturbed_gradients<Policy>(quiet), quiet.layers);
  support::whoever_is_killed<Policy>(kills, [&](auto& w, const elastic_world_options& o) {
    CHECK(std::abs(support::held_out_loss(support::holders_agree(w, o.hosts), o.layers) / loss - 1) < 0.03);
  });
}

}  // namespace

TEMPLATE_TEST_CASE("gradient ahead: two pipelines make the steps of two whole models by the same policy",
                   "[parallel][elastic][fast]", redundant, templates) {
  auto o = world_of<TestType>();
  o.clip_norm = 0;
  CHECK(support::off(undisturbed_gradients<TestType>(o), support::of_two_models<TestType>(o), o.layers) < 1e-5);
}

TEST_CASE("gradient ahead: while nobody is lost, copies of stages change no bit", "[parallel][elastic][fast]") {
  const auto o = support::two_pipelines();
  CHECK(undisturbed_gradients<redundant>(o) == undisturbed_gradients<distro>(o));
}

TEMPLATE_TEST_CASE("gradient ahead: the run goes on, whoever is killed", "[parallel][elastic][fast]", redundant,
                   templates) {
  goes_on_whoever_is_killed<TestType>(5);
}

TEMPLATE_TEST_CASE("gradient ahead: and at many more network calls", "[parallel][elastic][slow][every_call]", redundant,
                   templates) {
  goes_on_whoever_is_killed<TestType>(97);
}

TEMPLATE_TEST_CASE("gradient ahead: a peer may come in every step", "[parallel][elastic][fast]", redundant, templates) {
  auto o = world_of<TestType>();
  o.steps = 12;
  support::last_comes_in_each_step<gradient_world<TestType>>(o, 5, [](auto&, const auto&) {});
}

TEMPLATE_TEST_CASE("gradient ahead: all peers are stopped, and go on from checkpoints with the same bits",
                   "[parallel][elastic][fast]", redundant, templates) {
  const auto o = world_of<TestType>();
  const auto quiet = undisturbed_gradients<TestType>(o);
  support::local_checkpoints saved{.after = 4};
  gradient_world<TestType> w{o, &saved};
  support::stop_all_once_saved(w, saved, o.hosts);
  CHECK(support::errors_of(w, o.hosts).empty());
  REQUIRE(w.finished() == o.hosts);
  CHECK(support::holders_agree(w, o.hosts) == quiet);
}
