// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/optimizers.hpp>

#include <causeway/optim/dion.hpp>

#include "support/blocky.hpp"
#include "support/conformance.hpp"
#include "support/networks.hpp"

using namespace causeway;
using presets::make;
using support::blocky;

namespace {

/// Presets whose default says that the trainer's optimizer is this one.
struct short_snoo : presets::snoo {
  short_snoo() : presets::snoo{make(presets::snoo_options{.local_steps = 3})} {}
};
struct thin_dion : optim::dion {
  thin_dion() : optim::dion{optim::dion_options{.rank = 2}} {}
};
const auto every_step = [] { return comm::every_step<>{}; };

}  // namespace

TEST_CASE("presets: SNOO has its options", "[presets][fast]") {
  CHECK(make(presets::snoo_options{}).options().outer_momentum == 0.9F);
  CHECK(make(presets::snoo_options{.local_steps = 7}).options().local_steps == 7);
}

TEST_CASE("presets: SNOO and Dion pass the conformance suite", "[presets][fast]") {
  support::check_communication_policy<short_snoo, blocky>(every_step);
  support::check_communication_policy<thin_dion, blocky>(every_step);
}

TEST_CASE("presets: SNOO and Dion give the same bits on every network", "[presets][net]") {
  support::check_networks<short_snoo>(every_step);
  support::check_networks<thin_dion>(every_step);
}
