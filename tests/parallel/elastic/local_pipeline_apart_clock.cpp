// SPDX-License-Identifier: Apache-2.0
// Recoveries whose layouts are cut apart, with rounds by the clock: a row of a block counts by the samples behind it, and
// where the first stage is lost its shadow's clock counts.
#include <cstdint>

#include "parallel/elastic/clock_of_replicas.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "parallel/elastic/slow_apart.hpp"
#include "support/catch.hpp"

using namespace causeway;
using namespace support::slow_apart;

namespace {

using mean_by_clock = support::mean_by_clock<450, 4>;
using a_edit = support::a_edit<>;
// Calls: who founds the run is its only member until it is over, and that takes T seconds.
constexpr std::uint64_t first_round = 6 * support::founded;

}  // namespace

TEMPLATE_TEST_CASE("local pipelines cut apart: with rounds by the clock two come to two whole models by hand",
                   "[parallel][elastic][fast]", apart<mean_by_clock>, apart_forward<mean_by_clock>,
                   apart_by_templates<mean_by_clock>, tied<apart<mean_by_clock>>) {
  support::comes_to_two_whole_models_by_clock<TestType>(TestType::world(support::two_pipelines()));
}

TEMPLATE_TEST_CASE("local pipelines cut apart: rounds by the clock go on, whoever is killed all over the run",
                   "[parallel][elastic]", apart<a_edit>, apart_forward<a_edit>, apart_by_templates<a_edit>) {
  const auto o = TestType::world(support::two_pipelines());
  support::goes_on_whoever_is_killed<TestType>(61, 0.03, o, first_round);
}

TEMPLATE_TEST_CASE("local pipelines cut apart: rounds by the clock, whoever is lost at every seventh network call",
                   "[parallel][elastic][slow][every_call]", apart<a_edit>, apart_forward<a_edit>,
                   apart_by_templates<a_edit>) {
  support::goes_on_whoever_is_killed<TestType>(7, 0.03, TestType::world(support::two_pipelines()), first_round);
}
