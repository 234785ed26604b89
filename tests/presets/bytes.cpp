// SPDX-License-Identifier: Apache-2.0
// The ratios that papers claim, on the wire, headers included, between two peers: bench_comm_bytes has the whole table.

#include <causeway/optim/sgd.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/local_updates.hpp>
#include <causeway/presets/overlapped.hpp>

#include "support/catch.hpp"
#include "support/shaped.hpp"

using namespace causeway;
using presets::make;

namespace {

template <class MakePolicy>
double times_less(std::uint64_t lead, std::uint64_t steps, MakePolicy policy) {
  static const double every_step = support::bytes_sent<optim::sgd>(2, 1, 1, [] { return presets::every_step{}; });
  return every_step * static_cast<double>(steps) / support::bytes_sent<optim::sgd>(2, lead, steps, policy);
}

}  // namespace

TEST_CASE("presets: bytes are fewer by what the papers claim", "[presets][fast]") {
  CHECK(times_less(0, 30, [] { return make(presets::sparse_loco_options{}); }) > 146 * 30);
  CHECK(times_less(1, 2, [] { return make(presets::demo_options{}); }) > 85);
  CHECK(times_less(2, 2, [] { return make(presets::cocktail_sgd_options{}); }) > 117);
  CHECK(times_less(0, 64, [] { return make(presets::photon_options{.local_steps = 64}); }) > 63.9);
}

TEST_CASE("presets: Streaming DiLoCo's 400 times less", "[presets][fast]") {
  // Every fragment goes once in the second round of 100 steps. Against bf16 gradients, as the paper has it; f32 is twice
  // that.
  CHECK(times_less(100, 100, [] { return make(presets::streaming_diloco_options{}); }) > 2 * 396);
}
