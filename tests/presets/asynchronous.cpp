// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/asynchronous.hpp>

#include "support/simulated_runs.hpp"

using namespace causeway;
using presets::make;

TEST_CASE("presets: asynchronous systems pass the asynchronous conformance suite", "[presets][fast]") {
  SECTION("Async Local-SGD") {
    support::check_asynchronous_policy([] { return make(presets::async_local_sgd_options{.peers = 3, .local_steps = 4}); },
                                       {.speeds = {1, 0.5, 0.25}});
  }
  SECTION("Decoupled DiLoCo") {
    support::check_asynchronous_policy(
        [] { return make(presets::decoupled_diloco_options{.local_steps = 4, .fragments = 3, .least_peers = 2}); },
        {.speeds = {0.6, 1, 0.4}});
  }
  SECTION("HALoS") {
    support::check_asynchronous_policy(
        [] {
          return make(presets::halos_options{.regions = {{1, 0}, {3, 2}}, .local_steps = 2, .pushes = 2});
        },
        {.peers = 4, .steps = 6, .speeds = {1, 0.6, 0.8, 0.5}, .hubs = {1, 3}});
  }
}
