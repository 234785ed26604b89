// SPDX-License-Identifier: Apache-2.0
// Gradients that are gathered until all peers together have enough samples (DeDLOC), where pipelines are cut apart, or
// peers keep several stages: each range of blocks has a sum of its own.
#include <causeway/parallel/elastic_pipeline.hpp>

#include <cstdint>
#include <initializer_list>

#include "parallel/elastic/elastic_cases.hpp"
#include "parallel/elastic/gradient_world.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "parallel/elastic/segment_world.hpp"
#include "parallel/elastic/whole_rounds.hpp"
#include "support/catch.hpp"

using namespace causeway;
using support::eight_steps;
using support::elastic_world_options;
using support::gathering;
using support::gradient_world;
using support::in_whole_rounds;
using support::undisturbed_gradients;
using support::world_of;

namespace {

using redundant = support::with_redundant<gathering>;
using redundant_forward = support::with_redundant_forward<gathering>;
using templates = support::with_templates<gathering>;

/// At every `every`th network call of each of `victims`.
template <class Policy>
void whoever_is_killed(std::initializer_list<std::uint32_t> victims, std::uint64_t every) {
  const auto o = eight_steps(world_of<Policy>());
  std::uint64_t apart = 0, resumed = 0;
  for (const std::uint32_t victim : victims) {
    support::comes_to_whole_rounds<Policy>(o, victim, every, [&](auto& w) {
      apart += support::was_cut_apart(w, o) ? 1 : 0;
      for (std::uint32_t h = 0; h < o.hosts; ++h) resumed += w.at(h).resumed;
    });
  }
  CHECK(apart > 0);
  CHECK((resumed > 0) == decltype(Policy::recovery())::traits.keeps_work);
}

}  // namespace

TEMPLATE_TEST_CASE("gradient gathered: the parameters are those of one step for all samples of a round",
                   "[parallel][elastic][fast]", redundant, redundant_forward, templates) {
  auto o = eight_steps(world_of<TestType>());
  o.evaluations = 1;  // also before a step in the middle of a round
  gradient_world<TestType> w{o};
  w.boot();
  w.run();
  CHECK(support::errors_of(w, o.hosts).empty());
  REQUIRE(w.finished() == o.hosts);
  CHECK(w.distance(in_whole_rounds(o)) < 5e-5);
  for (std::uint32_t h = 0; h < o.hosts; ++h) {
    CHECK(w.at(h).missed == 0);
    CHECK(w.at(h).went_back == 0);
    CHECK(w.at(h).losses.size() == o.steps);
    CHECK(w.at(h).evaluated.at(0) == w.at(h).evaluated.at(2));  // nothing has moved yet
    CHECK(w.at(h).evaluated.at(2) != w.at(h).evaluated.at(3));
  }
}

TEMPLATE_TEST_CASE("gradient gathered: while nobody is lost, copies of stages change no bit", "[parallel][elastic][fast]",
                   redundant, redundant_forward) {
  const auto o = eight_steps();
  CHECK(undisturbed_gradients<TestType>(o) == undisturbed_gradients<gathering>(o));
}

TEMPLATE_TEST_CASE("gradient gathered: a round is of the same samples, whoever is killed", "[parallel][elastic][fast]",
                   redundant, redundant_forward, templates) {
  whoever_is_killed<TestType>({0, 1, 2, 3}, 83);
}

TEMPLATE_TEST_CASE("gradient gathered: and at every single network call", "[parallel][elastic][slow][every_call]",
                   redundant, redundant_forward, templates) {
  whoever_is_killed<TestType>({0, 3}, 1);
}

TEMPLATE_TEST_CASE("gradient gathered: a peer may come in every step of a round", "[parallel][elastic][fast]", redundant,
                   redundant_forward, templates) {
  auto o = world_of<TestType>();
  o.steps = 24;
  support::last_comes_in_each_step<gradient_world<TestType>>(
      o, 6, [](auto& w, const elastic_world_options& with) { CHECK(w.distance(in_whole_rounds(with)) < 5e-5); });
}

TEMPLATE_TEST_CASE("gradient gathered: all peers are stopped in a round, and go on from checkpoints with the same bits",
                   "[parallel][elastic][fast]", redundant, redundant_forward, templates) {
  const auto o = eight_steps(world_of<TestType>());
  const auto quiet = undisturbed_gradients<TestType>(o);
  for (const std::uint64_t step : {3U, 5U}) {
    INFO("all are stopped after step " << step);
    support::local_checkpoints saved{.after = step};
    gradient_world<TestType> w{o, &saved};
    support::stop_all_once_saved(w, saved, o.hosts);
    CHECK(support::errors_of(w, o.hosts).empty());
    REQUIRE(w.finished() == o.hosts);
    CHECK(support::holders_agree(w, o.hosts) == quiet);
  }
}

TEMPLATE_TEST_CASE("gradient gathered: a run whose peers are all stopped goes on from the rounds that are saved",
                   "[parallel][elastic][fast]", redundant, redundant_forward) {
  support::stop_all_and_start_again([](const elastic_world_options& o) { return gradient_world<TestType>{o}; },
                                    [](auto& w, const elastic_world_options& o) {
                                      support::holders_agree(w, o.hosts);
                                      CHECK(w.distance(in_whole_rounds(o)) < 5e-5);
                                    });
}

TEMPLATE_TEST_CASE("gradient gathered: a peer that is told to go in the middle of a round hands over",
                   "[parallel][elastic][fast]", redundant, redundant_forward, templates) {
  auto o = eight_steps(world_of<TestType>());
  o.told_to_go = {{1, 4}};
  gradient_world<TestType> w{o};
  w.wanted = o.hosts - 1;
  w.boot();
  w.run();
  CHECK(support::errors_of(w, o.hosts).empty());
  CHECK(w.finished() == o.hosts - 1);
  CHECK(w.at(1).left);
  CHECK(w.distance(in_whole_rounds(o)) < 5e-5);
}
