// SPDX-License-Identifier: Apache-2.0
// Pipelines whose replicas take steps of their own, and exchange by the clock: A-EDiT.
#include "parallel/elastic/clock_of_replicas.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "parallel/elastic/late_model.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "support/catch.hpp"

using namespace causeway;

using mean_by_clock = support::mean_by_clock<450, 4>;
using streamed = support::paced<parallel::streamed_steps>;

// The quick replica makes four steps in 450 ms, the other one two.
TEST_CASE("local pipeline: with rounds by the clock two pipelines come to two whole models by hand",
          "[parallel][elastic][fast]") {
  support::comes_to_two_whole_models_by_clock<mean_by_clock>(support::two_pipelines());
}

// The first half of each is a micro-batch late, and both drain when one of them comes to the exchange.
TEST_CASE("local async pipeline: with rounds by the clock two pipelines come to two models by hand",
          "[parallel][elastic][fast]") {
  auto o = support::two_pipelines();
  o.steps = 24;
  o.clip_norm = 0;
  support::local_world<support::mean_by_clock<450, 4, streamed>> w{o};
  const support::made_steps made = support::steps_of_run(w, o);
  std::array<support::late_model, 2> two{support::late_model{o, 2}, support::late_model{o, 2}};
  support::each_round(made, [&](const support::rounds_of_two& steps) {
    for (std::size_t m = 0; m < 2; ++m) {
      for (const std::uint64_t s : steps[m]) {
        const support::token_batch b{0, s, o.micro_batches};
        two[m].step(b.view().slice(2 * static_cast<std::int64_t>(m), 2), s == steps[m].back());
      }
    }
    for (std::size_t i = 0; i < two[0].now.size(); ++i) {
      two[0].now[i] = two[1].now[i] = support::mean_of_steps(steps, two[0].now[i], two[1].now[i]);
    }
  });
  CHECK(support::off(support::holders_agree(w, o.hosts), two[0].named(), o.layers) < 1e-4);
}

namespace {

/// How many steps both replicas made together in each round of a run.
template <class Policy>
std::vector<std::size_t> sums_of_rounds() {
  auto o = support::two_pipelines();
  o.steps = 24;
  support::local_world<Policy> w{o};
  std::vector<std::size_t> sums;
  support::each_round(support::steps_of_run(w, o),
                      [&](const support::rounds_of_two& steps) { sums.push_back(steps[0].size() + steps[1].size()); });
  sums.pop_back();  // the last ends with the run
  return sums;
}

/// The spare one makes no steps, and with the newcomer there are two pipelines.
template <class Policy>
void lets_newcomers_in() {
  support::newcomer_in_each_step<support::local_world<Policy>>(8, 24, [](auto& w, const auto& o) {
    for (std::uint32_t h = 0; h < o.hosts; ++h) CHECK(w.last_assignment(h) != nullptr);
    CHECK(w.at(0).layouts.rbegin()->second.replicas.size() == 2);
  });
}

}  // namespace

// With the step in which it is heard that there are enough, which each of them ends.
TEMPLATE_TEST_CASE("local pipeline: rounds by the clock wait for enough steps of all together", "[parallel][elastic][fast]",
                   (support::mean_by_clock<0, 9>), (support::mean_by_clock<0, 9, streamed>)) {
  const auto sums = sums_of_rounds<TestType>();
  CAPTURE(sums);
  REQUIRE(sums.size() > 1);
  for (const std::size_t steps : sums) {
    CHECK(steps >= 9);
    CHECK(steps <= 11);
  }
}

TEMPLATE_TEST_CASE("local pipeline: rounds by the clock go on whoever is lost, and let others in", "[parallel][elastic]",
                   support::a_edit<>) {
  support::goes_on_whoever_is_killed<TestType>(29, 0.03);
  lets_newcomers_in<TestType>();
}

TEST_CASE("local pipeline: rounds by the clock, also after all were stopped", "[parallel][elastic][fast]") {
  support::goes_on_from_checkpoints<support::a_edit<support::paced<stage::one_f_one_b, false>>>();
}

TEST_CASE("local pipeline: a spare peer takes a lost one's place in a round by the clock", "[parallel][elastic]") {
  auto o = support::two_pipelines();
  o.steps = 12;
  support::spare_peers_take_over<support::a_edit<>>(o, 700, 97, [&](const auto& all, const auto& quiet) {
    CHECK(std::abs(support::held_out_loss(all, o.layers) / support::held_out_loss(quiet, o.layers) - 1) < 0.03);
  });
}

TEST_CASE("local pipeline: rounds by the clock, whoever is lost at every single network call",
          "[parallel][elastic][local_pipeline][slow][every_call]") {
  support::goes_on_whoever_is_killed<support::a_edit<>>(3, 0.03);
}

TEST_CASE("local async pipeline: rounds by the clock go on whoever is lost, and let others in",
          "[parallel][elastic][slow][every_call]") {
  support::goes_on_whoever_is_killed<support::a_edit<streamed>>(11, 0.03);
  lets_newcomers_in<support::a_edit<streamed>>();
}
