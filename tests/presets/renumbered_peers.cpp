// SPDX-License-Identifier: Apache-2.0
// Which peer has which number changes nothing: four peers that trade their samples' streams end with each other's
// parameters, but for the order in which sums are made. Not asked of presets in which numbers decide by design (who meets
// whom is drawn by number: NoLoCo, Moshpit, BACombo, DiPaCo's paths, lots; who owns which share: StellaTrain) or in which
// the order of arrival does (hubs, mirrors, DLion).

#include <causeway/optim/adamw.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/gossip.hpp>
#include <causeway/presets/local_updates.hpp>
#include <causeway/presets/overlapped.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/blocky.hpp"
#include "support/conformance.hpp"

using namespace causeway;
using presets::make;

namespace {

using streams = std::array<std::uint32_t, 4>;  // whose samples each peer trains on

/// The parameters that each stream's peer ends with.
template <class Inner, class MakePolicy>
std::vector<std::vector<float>> ends_of(MakePolicy policy, const streams& stream_of, bool finish = true) {
  std::vector<std::vector<float>> ends(stream_of.size());
  support::run_cluster(4, [&](std::uint32_t peer, environment env) {
    auto t = make_trainer(support::test_model{support::blocky{}}, std::move(env), {.learning_rate = optim::constant{0.05F}},
                          policy(), Inner{});
    REQUIRE(t.start());
    for (std::uint64_t s = 0; s < 9; ++s) {
      const auto tokens = support::tokens_of(stream_of[peer], s);
      REQUIRE(t.step({tokens, tokens, 1}));
    }
    if (finish) REQUIRE(t.finish());
    const auto values = t.model().parameters().values();
    ends[stream_of[peer]].assign(values.begin(), values.end());
  });
  return ends;
}

float furthest(const std::vector<float>& a, const std::vector<float>& b) {
  float most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

/// `within`: of how far apart the peers' parameters and their beginning are, at most; 2e-5: sums in another order.
template <class Inner = optim::sgd, class MakePolicy>
void check_renumbered(MakePolicy policy, float within = 2e-5F) {
  const auto plain = ends_of<Inner>(policy, {0, 1, 2, 3});
  const auto traded = ends_of<Inner>(policy, {2, 0, 3, 1});
  support::blocky first;
  const auto begin = first.parameters().values();
  const float moved = furthest(plain[0], {begin.begin(), begin.end()});
  REQUIRE(moved > 0.01F);
  for (std::size_t stream = 0; stream < plain.size(); ++stream) {
    INFO("stream " << stream);
    CHECK(furthest(plain[stream], traded[stream]) <= within * moved);
  }
}

}  // namespace

TEST_CASE("renumbered peers: gradients and local updates that are averaged whole", "[presets][fast]") {
  check_renumbered([] { return presets::every_step{}; });
  check_renumbered([] { return make(presets::local_sgd_options{3}); });
  check_renumbered([] { return make(presets::fedavg_options{.local_steps = 3, .share = 1.0}); });
  check_renumbered([] { return make(presets::photon_options{.local_steps = 3, .outer_momentum = 0.5F}); });
  check_renumbered<optim::adamw>([] { return make(presets::diloco_options{.local_steps = 3}); });
  check_renumbered<optim::adamw>([] { return make(presets::open_diloco_options{{.local_steps = 3}}); }, 1e-3F);  // fp16
  check_renumbered<optim::adamw>([] { return make(presets::intellect1_options{.local_steps = 3}); }, 2e-2F);  // 8-bit ring
  check_renumbered<optim::adamw>([] { return make(presets::muloco_options{.local_steps = 3}); });
  check_renumbered(
      [] { return make(presets::co_learning_options{{.local_steps = 1, .most = 4, .factor = 2, .tolerance = 0.3}}); });
  check_renumbered<optim::adamw>([] { return make(presets::des_loc_options{1, 2, 4}); });
  check_renumbered([] { return make(presets::edit_options{.local_steps = 3, .warm_up = 2}); });
  check_renumbered([] { return make(presets::ravnest_options{.local_steps = 3}); });
  check_renumbered([] { return make(presets::netstorm_options{}); });
}

TEST_CASE("renumbered peers: rows that overlap with steps", "[presets][fast]") {
  check_renumbered<optim::adamw>(
      [] { return make(presets::streaming_diloco_options{.local_steps = 4, .blocks_in_fragment = 2}); });
  check_renumbered<optim::adamw>([] { return make(presets::eager_diloco_options{.local_steps = 2}); });
  check_renumbered<optim::adamw>(
      [] { return make(presets::cocodc_options{.local_steps = 4, .blocks_in_fragment = 2, .overlap_steps = 2}); });
}

TEST_CASE("renumbered peers: sparse rows, each peer's own choice of entries", "[presets][fast]") {
  check_renumbered<optim::adamw>([] { return make(presets::sparse_loco_options{.local_steps = 3, .k = 4}); });
  check_renumbered([] { return make(presets::demo_options{.k = 4}); });
  check_renumbered([] { return make(presets::distro_options{{.k = 4}}); });
  check_renumbered([] { return make(presets::gaia_options{0.05F}); });
  check_renumbered<optim::adamw>([] { return make(presets::sparta_options{.share = 0.3}); });
  check_renumbered<optim::adamw>(
      [] { return make(presets::sparta_diloco_options{.sparta = {.share = 0.3}, .local_steps = 3}); });
  check_renumbered([] { return make(presets::power_sgd_options{2}); });
}

TEST_CASE("renumbered peers: whom a peer meets by number shows", "[presets][fast]") {
  const auto policy = [] { return make(presets::noloco_options{.local_steps = 2}); };
  const auto plain = ends_of<optim::sgd>(policy, {0, 1, 2, 3}, false);  // at the end all meet
  const auto traded = ends_of<optim::sgd>(policy, {2, 0, 3, 1}, false);
  CHECK(furthest(plain[0], traded[0]) > 1e-3F);
}
