// SPDX-License-Identifier: Apache-2.0
// Presets whose peers do not keep step: hubs, mirrors, batches by speed or of all peers together.
#include <causeway/presets/asynchronous.hpp>
#include <causeway/presets/compressed.hpp>

#include "presets/in_pipelines/in_pipelines.hpp"

using namespace causeway;
using presets::make;
using support::check_out_of_step;

namespace {

constexpr support::pipeline_case three{.ranks = 1, .replicas = 3, .micro_batches = 2, .sequences = 4, .steps = 5};

template <class MakeComm>
void check_everywhere(MakeComm comm) {
  check_out_of_step<support::whole>(comm, three);
  check_out_of_step<support::in_pipeline>(comm);
  check_out_of_step<support::in_async_pipeline>(comm);
}

}  // namespace

TEST_CASE("in pipelines: hubs, a peer lost at any network operation", "[presets][slow][every_call]") {
  check_everywhere([] { return make(presets::async_local_sgd_options{.local_steps = 2}); });
  check_everywhere([] { return make(presets::decoupled_diloco_options{.local_steps = 2, .fragments = 2}); });
}

TEST_CASE("in pipelines: hubs of hubs, a peer lost at any network operation", "[presets][slow][every_call]") {
  const auto halos = [](collective::region_list regions) {
    return [regions] { return make(presets::halos_options{.regions = regions, .local_steps = 2, .pushes = 2}); };
  };
  check_out_of_step<support::whole>(halos({{0, 1}, {2}}), three);
  check_out_of_step<support::in_pipeline>(halos({{0}, {1}}));
  check_out_of_step<support::in_async_pipeline>(halos({{0}, {1}}));
}

TEST_CASE("in pipelines: mirrors, a peer lost at any network operation", "[presets][slow][every_call]") {
  check_everywhere([] { return make(presets::gaia_asp_options{.threshold = 0.001F, .most_ahead = 2}); });
  const auto grouped = [](collective::region_list groups) {
    return [groups] { return make(presets::gaia_asp_options{.threshold = 0.001F, .most_ahead = 2, .groups = groups}); };
  };
  check_out_of_step<support::whole>(grouped({{0, 1}, {2}}), three);
  check_out_of_step<support::in_pipeline>(grouped({{0}, {1}}));
}

TEST_CASE("in pipelines: batches by speed, a peer lost at any network operation", "[presets][slow][every_call]") {
  check_everywhere([] { return make(presets::dlion_options{.sequences = 8, .multiple = 2}); });
}

TEST_CASE("in pipelines: samples of all peers, one lost at any network operation", "[presets][slow][every_call]") {
  const auto dedloc = [] { return make(presets::dedloc_options{.batch = 12}); };
  check_out_of_step<support::whole>(dedloc, three, true);
  check_out_of_step<support::in_pipeline>(dedloc, support::two_by_two, true);
}
