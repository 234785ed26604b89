// SPDX-License-Identifier: Apache-2.0
// Gradients taken where a peer's own last row would bring its blocks (DisTrO), where pipelines are cut apart, or peers keep
// several stages: each range of blocks is moved by its own row.
#include <causeway/parallel/elastic_pipeline.hpp>

#include <causeway/optim/sgd.hpp>
#include <causeway/presets/compressed.hpp>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>

#include "parallel/elastic/elastic_cases.hpp"
#include "parallel/elastic/gradient_world.hpp"
#include "parallel/elastic/late_steps.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "parallel/elastic/segment_world.hpp"
#include "support/catch.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using support::elastic_world_options;
using support::gradient_world;
using support::undisturbed_gradients;
using support::world_of;

namespace {

struct distro {
  static auto make() { return presets::make(presets::distro_options{}); }
  static auto inner() { return optim::sgd{}; }
};
using redundant = support::with_redundant<distro>;
using templates = support::with_templates<distro>;

/// Rows in f32, and none of their gradients forgotten: what they come to can be computed by hand.
struct late {
  static constexpr bool ahead = false;
  static auto make() {
    return comm::rounds{axis::every{1}, axis::gradient{}, axis::one_round_late{}, axis::gather_mean<>{}};
  }
  static auto inner() { return optim::sgd{}; }
};
struct late_ahead : late {
  static constexpr bool ahead = true;
  static auto make() {
    return comm::rounds{axis::every{1}, axis::gradient_ahead{}, axis::one_round_late{}, axis::gather_mean<>{}};
  }
};

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

TEMPLATE_TEST_CASE(
    "gradient ahead: whoever is lost between two steps, these are made of the rows that are left, of ranges of blocks",
    "[parallel][elastic][fast]", support::with_redundant<late>, support::with_redundant<late_ahead>,
    support::with_templates<late>, support::with_templates<late_ahead>) {
  auto o = world_of<TestType>();
  o.clip_norm = 0;
  o.steps = 7;
  const std::uint64_t at = GENERATE(1U, 2U, 3U, 4U, 5U);
  const std::uint32_t victim = GENERATE(1U, 2U, 3U);
  std::function<void(std::uint32_t)> kill;
  o.before_step = [&](std::uint32_t host, std::uint64_t step) {
    if (host == victim && step == at && kill) std::exchange(kill, nullptr)(host);
  };
  gradient_world<TestType> w{o};
  kill = [&](std::uint32_t host) { w.world().after(0ms, [&w, host] { w.world().kill(host); }); };
  w.wanted = o.hosts - 1;
  w.boot();
  w.run();
  CHECK(support::errors_of(w, o.hosts).empty());
  CHECK(w.finished() == o.hosts - 1);
  CHECK(support::was_cut_apart(w, o));
  const auto reached = support::holders_agree(w, o.hosts);
  const auto& layouts = w.at(0).layouts;
  CHECK(support::off(reached, support::late_steps_by_hand(o, layouts, TestType::ahead), o.layers) < 1e-4);
  CHECK(support::off(reached, support::late_steps_by_hand(o, layouts, !TestType::ahead), o.layers) > 1e-2);
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

TEST_CASE("gradient ahead: a run whose peers are all stopped goes on from what is saved", "[parallel][elastic][fast]") {
  support::stop_all_and_start_again([](const elastic_world_options& o) { return gradient_world<redundant>{o}; },
                                    [](auto& w, const elastic_world_options& o) { support::holders_agree(w, o.hosts); });
}
