// SPDX-License-Identifier: Apache-2.0
// Elastic pipelines with a policy that gathers gradients until all peers together have enough samples (DeDLOC).
#include <causeway/parallel/elastic_pipeline.hpp>

#include <causeway/stage/recovery_reroute.hpp>

#include <cmath>
#include <cstdint>

#include "parallel/elastic/elastic_cases.hpp"
#include "parallel/elastic/gradient_world.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "parallel/elastic/whole_rounds.hpp"
#include "support/catch.hpp"

using namespace causeway;
using support::comes_to_whole_rounds;
using support::eight_steps;
using support::elastic_world_options;
using support::gathering;
using support::gradient_world;
using support::in_whole_rounds;
using support::undisturbed_gradients;

namespace {

struct gathering_with_detours : gathering {
  static auto recovery() { return stage::recovery::reroute{2}; }
};

}  // namespace

TEST_CASE("elastic gathered: the parameters are those of one step for all samples of a round",
          "[parallel][elastic][fast]") {
  auto o = eight_steps();
  o.evaluations = 1;  // also before a step in the middle of a round
  gradient_world<gathering> w{o};
  w.boot();
  w.run();
  CHECK(support::errors_of(w, o.hosts).empty());
  REQUIRE(w.finished() == o.hosts);
  const auto whole = in_whole_rounds(o);
  CHECK(w.distance(whole) < 1e-5);
  CHECK(gradient_world<gathering>{o}.unsplit().parameters != whole.parameters);
  for (std::uint32_t h = 0; h < o.hosts; ++h) {
    CHECK(w.at(h).missed == 0);
    CHECK(w.at(h).went_back == 0);
    CHECK(w.at(h).losses.size() == o.steps);
    CHECK(w.at(h).evaluated.at(0) == w.at(h).evaluated.at(2));  // nothing has moved yet
    CHECK(w.at(h).evaluated.at(2) != w.at(h).evaluated.at(3));
  }
}

TEST_CASE("elastic gathered: so they are whoever is killed", "[parallel][elastic][fast]") {
  for (const std::uint32_t victim : {0U, 2U}) comes_to_whole_rounds(eight_steps(), victim, 41);
}

TEST_CASE("elastic gathered: so they are where a lost peer's micro-batches take detours", "[parallel][elastic][fast]") {
  for (const std::uint32_t victim : {0U, 3U}) comes_to_whole_rounds<gathering_with_detours>(eight_steps(), victim, 41);
}

TEST_CASE("elastic gathered: and at every single network call", "[parallel][elastic][slow][every_call]") {
  for (const std::uint32_t victim : {0U, 3U}) comes_to_whole_rounds(eight_steps(), victim, 1);
}

TEST_CASE("elastic gathered: a peer may come in every step of a round", "[parallel][elastic][fast]") {
  // It gets the moments of as many steps as there were rounds.
  support::newcomer_in_each_step<gradient_world<gathering>>(6, 24, [](auto& w, const auto& o) {
    support::make_two_pipelines(w, o);
    CHECK(w.distance(in_whole_rounds(o)) < 5e-5);
  });
}

TEST_CASE("elastic gathered: all peers are stopped in a round, and go on from checkpoints with the same bits",
          "[parallel][elastic][fast]") {
  const auto o = eight_steps();
  const auto quiet = undisturbed_gradients<gathering>(o);
  for (const std::uint64_t step : {3U, 5U}) {
    INFO("all are stopped after step " << step);
    support::local_checkpoints saved{.after = step};
    gradient_world<gathering> w{o, &saved};
    support::stop_all_once_saved(w, saved);
    CHECK(support::errors_of(w, o.hosts).empty());
    REQUIRE(w.finished() == 4);
    CHECK(support::holders_agree(w, o.hosts) == quiet);
  }
}

TEST_CASE("elastic gathered: a run whose peers are all stopped goes on from the rounds that are saved",
          "[parallel][elastic][fast]") {
  support::stop_all_and_start_again([](const elastic_world_options& o) { return gradient_world<gathering>{o}; },
                                    [](auto& w, const elastic_world_options& o) {
                                      support::holders_agree(w, o.hosts);
                                      CHECK(w.distance(in_whole_rounds(o)) < 5e-5);
                                    });
}

TEST_CASE("elastic gathered: a peer that is told to go in the middle of a round hands over", "[parallel][elastic][fast]") {
  auto o = eight_steps();
  o.told_to_go = {{1, 4}};
  gradient_world<gathering> w{o};
  w.wanted = 3;
  w.boot();
  w.run();
  CHECK(support::errors_of(w, o.hosts).empty());
  CHECK(w.finished() == 3);
  CHECK(w.at(1).left);
  CHECK(w.distance(in_whole_rounds(o)) < 5e-5);
}
