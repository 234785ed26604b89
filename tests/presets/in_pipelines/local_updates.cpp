// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/every_step.hpp>
#include <causeway/presets/local_updates.hpp>

#include "presets/in_pipelines/in_pipelines.hpp"

using namespace causeway;
using presets::make;
using support::check_in_pipelines;

TEST_CASE("in pipelines: every_step, a peer lost at any network operation", "[presets][slow][every_call]") {
  check_in_pipelines([] { return comm::every_step<>{}; });
}

TEST_CASE("in pipelines: DiLoCo and its codecs, a peer lost at any network operation", "[presets][slow][every_call]") {
  check_in_pipelines([] { return make(presets::diloco_options{.local_steps = 2}); });
  check_in_pipelines([] { return make(presets::open_diloco_options{{.local_steps = 2}}); });
  check_in_pipelines([] { return make(presets::intellect1_options{.local_steps = 2}); });
  check_in_pipelines([] { return make(presets::muloco_options{.local_steps = 2}); });
}

TEST_CASE("in pipelines: averages, a peer lost at any network operation", "[presets][slow][every_call]") {
  check_in_pipelines([] { return make(presets::local_sgd_options{2}); });
  check_in_pipelines([] { return make(presets::fedavg_options{.local_steps = 2, .share = 0.5}); });
  check_in_pipelines([] { return make(presets::photon_options{.local_steps = 2, .outer_momentum = 0.5F}); });
  check_in_pipelines(
      [] { return make(presets::co_learning_options{{.local_steps = 1, .most = 4, .factor = 2, .tolerance = 0.3}}); });
  check_in_pipelines([] { return make(presets::edit_options{.local_steps = 1, .warm_up = 2, .threshold = 0.5}); });
  check_in_pipelines([] { return make(presets::des_loc_options{2, 3, 4}); });
}

TEST_CASE("in pipelines: A-EDiT, a peer lost at any network operation", "[presets][slow][every_call]") {
  const auto a_edit = [] {  // after every second step of both pipelines, whatever the clock says
    return make(presets::a_edit_options{.seconds = 0, .fewest_steps = 4, .warm_up = 2, .threshold = 0.5});
  };
  const auto runs = support::runs_in<support::in_pipeline, optim::adamw>(a_edit, support::two_by_two);
  for (std::uint32_t victim = 0; victim < runs.peers(); ++victim) runs.check_losses(victim, runs.peers(), victim);
}
