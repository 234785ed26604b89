// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/compressed.hpp>

#include <causeway/optim/dion.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/optim/sparse_steps.hpp>

#include "presets/in_pipelines/in_pipelines.hpp"

using namespace causeway;
using presets::make;
using support::check_in_pipelines;

namespace {

struct given_dion : optim::dion {
  given_dion() : optim::dion{optim::dion_options{.given = true}} {}
};

}  // namespace

TEST_CASE("in pipelines: sparse rows of local steps, a peer lost at any network operation", "[presets][slow][every_call]") {
  check_in_pipelines([] { return make(presets::sparse_loco_options{.local_steps = 2, .k = 4}); });
  check_in_pipelines([] { return make(presets::sparta_options{.share = 0.3}); });
  check_in_pipelines([] { return make(presets::sparta_diloco_options{.sparta = {.share = 0.3}, .local_steps = 2}); });
  check_in_pipelines<optim::sgd>([] { return make(presets::cocktail_sgd_options{.mask_share = 0.5, .k = 64}); });
  check_in_pipelines<optim::sgd>([] { return make(presets::gaia_options{0.05F}); });
}

TEST_CASE("in pipelines: compressed gradients, a peer lost at any network operation", "[presets][slow][every_call]") {
  check_in_pipelines<optim::sgd>([] { return make(presets::demo_options{.k = 4}); });
  check_in_pipelines<optim::sgd>([] { return make(presets::distro_options{{.k = 4}}); });
  check_in_pipelines<optim::sgd>([] { return make(presets::power_sgd_options{2}); });
  check_in_pipelines<optim::sparse_sgd>([] { return make(presets::stella_train_options{.share = 0.5F}); });
  check_in_pipelines<given_dion>([] { return make(presets::dion_options{.rank = 2}); });
}
