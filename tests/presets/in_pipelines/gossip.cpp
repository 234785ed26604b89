// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/gossip.hpp>
#include <causeway/presets/modular.hpp>

#include "presets/in_pipelines/in_pipelines.hpp"

using namespace causeway;
using presets::make;
using support::check_in_pipelines;

TEST_CASE("in pipelines: gossip, a peer lost at any network operation", "[presets][slow][every_call]") {
  check_in_pipelines([] { return make(presets::noloco_options{.local_steps = 2}); });
  check_in_pipelines([] { return make(presets::moshpit_sgd_options{.local_steps = 2, .side = 2, .dimensions = 1}); });
  check_in_pipelines([] { return make(presets::bacombo_options{.local_steps = 2, .segments = 3}); });
}

TEST_CASE("in pipelines: regions, trees and paths, a peer lost at any network operation", "[presets][slow][every_call]") {
  check_in_pipelines([] { return make(presets::ravnest_options{.local_steps = 2, .clusters = {{0}, {1}}}); });
  check_in_pipelines([] { return make(presets::netstorm_options{.roots = {0, 1}}); });
  check_in_pipelines([] {
    return make(presets::dipaco_options{.paths = axis::every_path({2, 2}, 2), .blocks_per_level = 1, .local_steps = 2});
  });
}
