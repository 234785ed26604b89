// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/overlapped.hpp>

#include "support/blocky.hpp"
#include "support/conformance.hpp"
#include "support/networks.hpp"
#include "support/simulated_runs.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using presets::make;
using support::blocky;
using support::check_communication_policy;

TEST_CASE("presets: overlapped systems have their papers' options", "[presets][fast]") {
  CHECK(make(presets::streaming_diloco_options{}).trigger().local_steps == 100);
  CHECK(make(presets::streaming_diloco_options{}).merge_rule().local_share == 0.5F);
  CHECK(presets::streaming_diloco_options{}.outer_learning_rate == 0.4F);
  STATIC_REQUIRE(presets::streaming_diloco::traits.identical_replicas);
  STATIC_REQUIRE_FALSE(presets::eager_diloco::traits.identical_replicas);
}

TEST_CASE("presets: overlapped systems pass the conformance suite", "[presets][fast]") {
  check_communication_policy<optim::adamw, blocky>(
      [] { return make(presets::streaming_diloco_options{.local_steps = 4, .blocks_in_fragment = 2}); });
  check_communication_policy<optim::adamw, blocky>([] { return make(presets::eager_diloco_options{.local_steps = 2}); });
  check_communication_policy<optim::adamw, blocky>(
      [] { return make(presets::cocodc_options{.local_steps = 4, .blocks_in_fragment = 2, .overlap_steps = 2}); });
}

TEST_CASE("presets: overlapped systems give the same bits on every network", "[presets][net]") {
  support::check_networks(
      [] { return make(presets::streaming_diloco_options{.local_steps = 4, .blocks_in_fragment = 2}); });
  support::check_networks([] { return make(presets::eager_diloco_options{.local_steps = 2}); });
  support::check_networks(
      [] { return make(presets::cocodc_options{.local_steps = 4, .blocks_in_fragment = 2, .overlap_steps = 2}); });
}

TEST_CASE("presets: overlap hides the exchange where the line allows it", "[presets][fast]") {
  // Steps of 20 ms; a row of 1.2 KB over lines of 15 ms and 200 kB/s takes 2 x 15 + 6 ms and more: two steps.
  const auto seconds_of = [](auto policy) {
    support::simulated_runs<optim::adamw, blocky, decltype(policy)> runs{
        policy, {.peers = 2, .steps = 40, .latency = 15ms, .bytes_per_s = 2e5}};
    const auto run = runs.run();
    return std::chrono::duration<double>(run.peers[0].trained - run.peers[0].began).count();
  };
  const double alone = seconds_of([] { return comm::rounds{axis::every{1000}, axis::split_mean<>{}}; });
  const double blocking = seconds_of([] { return comm::rounds{axis::every{4}, axis::split_mean<>{}}; });
  const double delayed = seconds_of([] {
    return comm::rounds{axis::every{4}, axis::split_mean<>{}, axis::delayed{3, 0.5F}};
  });
  const double eager = seconds_of([] { return make(presets::eager_diloco_options{.local_steps = 4}); });
  CHECK(alone == Approx(40 * 0.020).epsilon(0.02));
  REQUIRE(blocking > alone + 10 * 0.03);
  CHECK(1 - (delayed - alone) / (blocking - alone) >= 0.95);
  CHECK(1 - (eager - alone) / (blocking - alone) >= 0.95);
}
