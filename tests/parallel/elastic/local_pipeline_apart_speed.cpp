// SPDX-License-Identifier: Apache-2.0
// Recoveries whose layouts are cut apart, with batches that follow speed: the policy says each replica's part, and a row of
// a block counts by the samples behind it.
#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "parallel/elastic/divided_rows.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "parallel/elastic/slow_apart.hpp"
#include "support/catch.hpp"

using namespace causeway;
using namespace support::divided;
using namespace support::slow_apart;
using support::elastic_world_options;

namespace {

/// All that changed is sent, and means of it move the model; or the larger changes, in four parts.
struct all_of_it : support::divided_batches<> {
  static auto policy() { return comm::rounds{by_speed(12), axis::gather_mean<>{}, axis::outer<optim::sgd>{1.0F}}; }
};
struct dlion : support::divided_batches<4> {
  static auto policy() { return make(presets::dlion_options{.local_steps = H, .sequences = 4}); }
};
struct dlion_each_step : support::divided_batches<4> {
  static auto policy() { return make(presets::dlion_options{.local_steps = 1, .sequences = 4}); }
};

/// What `exchange` makes of whole models with the parts of the run, weighted by what is behind a row and as these are.
template <class Options, class ByHand>
void check_by_hand(std::uint64_t steps, ByHand by_hand, bool differs = true) {
  const auto o = Options::world(support::twelve_parts(steps));
  CAPTURE(o.steps);
  const divided_run run = run_of<Options>(o);
  CHECK(support::off(run.is, by_hand(o, run, weights::behind), o.layers) < 1e-4);
  if (differs) CHECK(support::off(run.is, by_hand(o, run, weights::in_force), o.layers) > 1e-3);
}

support::parameters means(const elastic_world_options& o, const divided_run& run, weights) {
  return by_hand(o, run, [&](std::uint64_t steps, std::span<float> shared, const models& all, const samples& in_force) {
    if (steps % H != 0 && steps != o.steps) return;
    for (std::size_t i = 0; i < shared.size(); ++i)
      shared[i] = all[0][i] = all[1][i] = mean_of(in_force, all[0][i], all[1][i]);
  });
}

/// The slow host's pipeline has 4 of 12 micro-batches in the end.
template <class Options>
void ends_with_a_third() {
  auto o = support::twelve_parts(12);
  support::local_world<Options> w{o};
  w.boot();
  w.run();
  REQUIRE(w.finished() == o.hosts);
  auto shares = support::shares_after(w, o.steps);
  std::sort(shares.begin(), shares.end());
  CHECK(shares == std::vector<std::uint32_t>{4, 8});
}

}  // namespace

TEST_CASE("local pipelines cut apart: a replica of half the speed has half as many micro-batches",
          "[parallel][elastic][fast]") {
  ends_with_a_third<apart<all_of_it>>();
  ends_with_a_third<apart_forward<all_of_it>>();
}

TEMPLATE_TEST_CASE("local pipelines cut apart: with parts by speed two come to two whole models by hand",
                   "[parallel][elastic][fast]", apart<all_of_it>, apart_forward<all_of_it>, apart_by_templates<all_of_it>,
                   tied<alike<all_of_it>>, tied<apart<all_of_it>>) {
  check_by_hand<TestType>(9, means, false);
}

TEMPLATE_TEST_CASE("local pipelines cut apart: a row that is late counts by the samples that it is of",
                   "[parallel][elastic][fast]", apart<late<>>, apart_by_templates<late<>>) {
  check_by_hand<TestType>(GENERATE(8U, 9U), a_round_late<TestType>);
}
TEMPLATE_TEST_CASE("local pipelines cut apart: a row that is a step late counts by the steps that it is of",
                   "[parallel][elastic][fast]", apart<a_step_late<>>, apart_forward<a_step_late<>>) {
  check_by_hand<TestType>(GENERATE(8U, 9U, 10U), replayed);
}
TEMPLATE_TEST_CASE("local pipelines cut apart: beside a policy that divides batches rows count by their own steps",
                   "[parallel][elastic][fast]", apart<means_beside<>>, apart<summed_means_beside>, apart<means_divide<>>,
                   apart_by_templates<means_divide<>>, tied<apart<means_divide<>>>) {
  check_by_hand<TestType>(GENERATE(7U, 9U), stacked<TestType>);
}

TEST_CASE("local pipelines cut apart: with parts by speed redundant stages change no bit of a run without losses",
          "[parallel][elastic][fast]") {
  const auto o = support::twelve_parts();
  const divided_run regrouped = run_of<all_of_it>(o);
  for (const divided_run& redundant : {run_of<apart<all_of_it>>(o), run_of<apart_forward<all_of_it>>(o)}) {
    CHECK(redundant.shares == regrouped.shares);
    CHECK(redundant.is == regrouped.is);
  }
}

TEMPLATE_TEST_CASE("local pipelines cut apart: with parts by speed a lost peer of redundant ones costs no step",
                   "[parallel][elastic][fast]", apart<dlion>, apart_forward<dlion>) {
  auto o = support::two_pipelines();
  for (o.victim = 0; o.victim < o.hosts; ++o.victim) {
    for (o.dies_at = (o.victim == 0 ? 2 : 1) * support::founded + o.victim;; o.dies_at += 61) {
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

TEMPLATE_TEST_CASE("local pipelines cut apart: parts by speed go on, whoever is killed all over the run",
                   "[parallel][elastic]", apart<dlion>, apart<dlion_each_step>, apart_forward<dlion>,
                   apart_by_templates<dlion>, apart<late<4>>, apart<means_divide<4>>, apart_forward<a_step_late<4>>,
                   apart_by_templates<means_beside<4>>, tied<alike<dlion>>) {
  const auto o = TestType::world(support::two_pipelines());
  support::goes_on_whoever_is_killed<TestType>(61, 0.03, o, 3 * support::founded);
}
TEMPLATE_TEST_CASE("local pipelines cut apart: parts by speed let others in", "[parallel][elastic][fast]", apart<dlion>,
                   apart_forward<means_divide<4>>) {
  support::newcomer_in_each_step<support::local_world<TestType>>(4, 12, support::make_two_pipelines);
}
TEMPLATE_TEST_CASE("local pipelines cut apart: parts by speed go on from checkpoints with the same bits",
                   "[parallel][elastic][fast]", apart<dlion>, apart_forward<dlion>, apart<late<4>>, apart<a_step_late<4>>,
                   apart<means_divide<4>>) {
  support::goes_on_from_checkpoints<TestType>();
}

TEMPLATE_TEST_CASE("local pipelines cut apart: parts by speed, whoever is lost at every seventh network call",
                   "[parallel][elastic][slow][every_call]", apart<dlion>, apart_forward<dlion>, apart_by_templates<dlion>,
                   apart<means_divide<4>>) {
  support::goes_on_whoever_is_killed<TestType>(7, 0.03, TestType::world(support::two_pipelines()), 3 * support::founded);
}
