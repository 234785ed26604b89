// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/overlapped.hpp>

#include "presets/in_pipelines/in_pipelines.hpp"

using namespace causeway;
using presets::make;
using support::check_in_pipelines;

TEST_CASE("in pipelines: overlapped systems, a peer lost at any network operation", "[presets][slow][every_call]") {
  check_in_pipelines([] { return make(presets::streaming_diloco_options{.local_steps = 4, .blocks_in_fragment = 1}); });
  check_in_pipelines([] { return make(presets::eager_diloco_options{.local_steps = 2}); });
  check_in_pipelines(
      [] { return make(presets::cocodc_options{.local_steps = 4, .blocks_in_fragment = 1, .overlap_steps = 1}); });
}
