// SPDX-License-Identifier: Apache-2.0
// Elastic pipelines with a policy that gathers gradients until all peers together have enough samples (DeDLOC).
#include <causeway/parallel/elastic_pipeline.hpp>

#include <causeway/presets/compressed.hpp>
#include <causeway/stage/recovery_reroute.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "parallel/elastic/elastic_cases.hpp"
#include "parallel/elastic/gradient_world.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "support/catch.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using support::elastic_world_options;
using support::gradient_world;
using support::undisturbed_gradients;

namespace {

/// A batch has four samples, so a round has three: eleven are more than two have.
constexpr std::uint64_t round_steps = 3;
struct gathering {
  static auto make() { return presets::make(presets::dedloc_options{.batch = 11}); }
};
struct gathering_with_detours : gathering {
  static auto recovery() { return stage::recovery::reroute{2}; }
};

/// Two rounds, and two steps that are left over when the run ends.
elastic_world_options eight_steps() {
  auto o = support::two_pipelines();
  o.steps = 8;
  return o;
}

/// The whole model, on one batch of all that a round has.
support::trained_model in_whole_rounds(const elastic_world_options& o) {
  trainer_options to;
  to.learning_rate = optim::constant{0.01F};
  to.clip_norm = o.clip_norm;
  auto model = nn::gpt::create(support::small_gpt(o.layers), kernels::cpu_backend{1});
  auto t = make_trainer(std::move(*model), environment{}, to, comm::every_step<>{}, optim::adamw{});
  REQUIRE(t.start());
  support::trained_model out;
  for (std::uint64_t first = 0; first < o.steps; first += round_steps) {
    std::vector<std::int32_t> inputs, targets;
    std::vector<std::uint64_t> samples;
    for (std::uint64_t s = first; s < std::min(first + round_steps, o.steps); ++s) {
      const support::token_batch b{0, s, o.micro_batches};
      const auto loss = t.evaluate(b.view());
      REQUIRE(loss);
      out.losses.push_back(*loss);
      inputs.insert(inputs.end(), b.inputs.begin(), b.inputs.end());
      targets.insert(targets.end(), b.targets.begin(), b.targets.end());
      samples.insert(samples.end(), b.samples.begin(), b.samples.end());
    }
    REQUIRE(t.step({inputs, targets, static_cast<std::int64_t>(samples.size()), samples}));
  }
  support::detail::collect(t.model().parameters(), out.parameters);
  return out;
}

/// Whoever is killed, a round is of the same samples. `every`: call of the victim's network; from the one on after which
/// the run is founded.
template <class Policy = gathering>
void comes_to_whole_rounds(std::uint32_t victim, std::uint64_t every) {
  auto o = eight_steps();
  std::vector<support::distinct_calls> calls;
  undisturbed_gradients<Policy>(o, &calls);
  const auto whole = in_whole_rounds(o);
  bool comes_back = false;
  const std::uint64_t first = (victim == 0 ? 2 : 1) * support::founded + victim;
  for (std::uint64_t n = first; n < calls[victim].count(); n = calls[victim].after(n, every)) {
    INFO("host " << victim << " is killed at call " << n);
    o.victim = victim;
    o.dies_at = n;
    o.back_after = std::exchange(comes_back, !comes_back) ? 200ms : causeway::duration{0};
    gradient_world<Policy> w{o};
    w.wanted = 3;
    w.boot();
    w.run();
    CHECK(support::errors_of(w, o.hosts).empty());
    CHECK(w.finished() >= 3);
    CHECK(w.distance(whole) < 5e-5);
    support::holders_agree(w, o.hosts);
  }
}

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
  for (const std::uint32_t victim : {0U, 2U}) comes_to_whole_rounds(victim, 41);
}

TEST_CASE("elastic gathered: so they are where a lost peer's micro-batches take detours", "[parallel][elastic][fast]") {
  for (const std::uint32_t victim : {0U, 3U}) comes_to_whole_rounds<gathering_with_detours>(victim, 41);
}

TEST_CASE("elastic gathered: and at every single network call", "[parallel][elastic][slow][every_call]") {
  for (const std::uint32_t victim : {0U, 3U}) comes_to_whole_rounds(victim, 1);
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
