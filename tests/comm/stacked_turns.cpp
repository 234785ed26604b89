// SPDX-License-Identifier: Apache-2.0
// Turns of two policies without faults; with faults: tests/presets/elastic.cpp.

#include <causeway/comm/stacked_turns.hpp>

#include <causeway/comm/rounds.hpp>
#include <causeway/comm/stacked.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/nesterov.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/local_updates.hpp>
#include <causeway/presets/overlapped.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "support/as_if_fixed.hpp"
#include "support/blocky.hpp"
#include "support/catch.hpp"
#include "support/elastic.hpp"
#include "support/unsent_rows.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using presets::make;
using support::as_if_fixed;

namespace {

auto diloco(std::uint32_t local_steps) { return make(presets::diloco_options{.local_steps = local_steps}); }
auto sparta() { return make(presets::sparta_options{.share = 0.1}); }
auto averaged(std::uint32_t every) { return comm::rounds{axis::every{every}, axis::parameters{}, axis::gather_mean<>{}}; }

/// What is not sent stays in the live parameters.
auto implicit() {
  using codec = presets::detail::sparse_loco_codec;
  return comm::rounds{
      axis::every{1}, axis::implicit_residual{},
      axis::gather_mean<codec, collective::contributor_mean>{codec{compress::no_transform{}, compress::top_k{{.k = 8}}}},
      axis::outer<optim::sgd>{0.5F}};
}

}  // namespace

TEST_CASE("stacked turns: without faults two policies do among peers that may come and go what they do among fixed ones",
          "[comm][fast]") {
  as_if_fixed([] { return make(presets::sparta_diloco_options{.sparta = {.share = 0.1}, .local_steps = 3}); });
  as_if_fixed([] { return comm::stacked{averaged(2), diloco(3)}; });  // turns of one, of the other, and of both
  as_if_fixed([] { return comm::stacked{diloco(3), averaged(2)}; });  // the second is of what the first made
  as_if_fixed([] { return comm::stacked{diloco(2), diloco(6)}; });    // both through the context, in one attempt
  as_if_fixed([] { return comm::stacked{sparta(), averaged(4)}; });   // both of parameters
  as_if_fixed([] { return comm::stacked{implicit(), diloco(4)}; });   // changes that stay behind
  as_if_fixed([] { return comm::stacked{averaged(4), implicit()}; });
}

TEST_CASE("stacked turns: fragments and moments of two policies", "[comm][fast]") {
  const auto fragments = [] {
    return comm::stacked{averaged(2),
                         comm::rounds{axis::staggered{9}, axis::strided{3}, axis::gather_mean<>{},
                                      axis::outer<optim::nesterov>{0.4F, optim::nesterov{{.momentum = 0.5F}}}}};
  };
  as_if_fixed<support::blocky>(fragments, 4);
  const auto moments = [] {
    return comm::stacked{
        make(presets::des_loc_options{.parameters_every = 2, .first_moment_every = 4, .second_moment_every = 6}),
        diloco(3)};
  };
  as_if_fixed<support::quadratic, optim::adamw>(moments);
  const auto summed = [] { return comm::stacked{sparta(), comm::rounds{axis::every{3}, axis::summed_updates{}}}; };
  as_if_fixed(summed);
}

TEST_CASE("stacked turns: rows that are made before their results are wanted", "[comm][fast]") {
  const auto streaming = [](std::uint32_t overlap) {
    return make(presets::streaming_diloco_options{.local_steps = 9, .blocks_in_fragment = 2, .overlap_steps = overlap});
  };
  as_if_fixed<support::blocky>([=] { return comm::stacked{averaged(2), streaming(2)}; }, 4);
  as_if_fixed<support::blocky>([=] { return comm::stacked{sparta(), streaming(4)}; }, 4);  // several under way
  as_if_fixed<support::blocky>([=] { return comm::stacked{streaming(1), diloco(3)}; }, 4);
  const auto replayed = [] { return comm::rounds{axis::every{4}, axis::replayed{2}, axis::gather_mean<>{}}; };
  as_if_fixed([=] { return comm::stacked{averaged(1), replayed()}; });
  as_if_fixed([=] { return comm::stacked{replayed(), averaged(3)}; });
  const auto compensated = [] { return comm::rounds{axis::every{6}, axis::compensated{3, 1.0F}, axis::gather_mean<>{}}; };
  as_if_fixed([=] { return comm::stacked{replayed(), compensated()}; });
  as_if_fixed([=] { return comm::stacked{averaged(1), support::unsent_rows(8)}; });
  as_if_fixed([=] { return comm::stacked{support::unsent_rows(8), averaged(3)}; });
}

namespace {

/// Eight peers of which the last takes so long for some steps that the others make turns without it. Gives how far its
/// parameters are from those of the first, at most, and how far the first one came.
template <class MakePolicy>
std::pair<float, float> with_a_slow_peer(MakePolicy policy) {
  support::elastic_options o{.peers = 8, .rounds = 40};
  std::vector<float> begin, newest;
  float apart = 0;
  std::size_t steps = 0;
  sim::world* world = nullptr;
  o.watches = [&](std::uint32_t host, std::span<const std::int32_t>, std::span<const float> parameters) {
    if (begin.empty()) begin.assign(parameters.begin(), parameters.end());
    if (host == 0) newest.assign(parameters.begin(), parameters.end());
    if (host != 7 || newest.empty()) return;
    const bool was_slow = steps % 8 == 0;  // since then the others have gone on
    world->set_speed(7, ++steps % 8 == 0 ? 0.02 : 1);
    if (was_slow) return;
    apart = std::max(apart, support::farthest(newest, parameters));
  };
  support::elastic_cluster<MakePolicy> cluster{policy, o};
  world = &cluster.world();
  cluster.boot();
  REQUIRE(cluster.run(10min));
  REQUIRE(!cluster.violation());
  CHECK(cluster.checker().samples().done() == cluster.budget());
  CHECK(steps > 10);
  CHECK(steps + 10 < cluster.steps_of(0));  // it missed some
  return {apart, support::farthest(begin, cluster.parameters(0))};
}

}  // namespace

TEST_CASE("stacked turns: who misses turns moves along once, not with each policy", "[comm][fast]") {
  const auto check = [](auto policy) {
    const auto [apart, gone] = with_a_slow_peer(policy);
    INFO("apart " << apart << ", gone " << gone);
    CHECK(apart < 0.08F * gone);
  };
  check([] { return make(presets::sparta_diloco_options{.sparta = {.share = 0.1}, .local_steps = 3}); });
  check([] { return comm::stacked{averaged(2), diloco(4)}; });
  check([] { return comm::stacked{implicit(), diloco(4)}; });
  check([] { return comm::stacked{averaged(2), support::unsent_rows(512)}; });  // all of them
}

TEST_CASE("stacked turns: a peer whose values are not finite sits a turn out, whosever turn it is", "[comm][fast]") {
  for (std::uint64_t round = 1; round <= 8; ++round) {  // turns of the first, of the second, and of both
    INFO("spoilt in round " << round);
    support::elastic_options o{.peers = 3, .rounds = 20};
    bool spoilt = false;
    o.spoils = [&](std::uint32_t host, std::uint64_t at, std::span<float> parameters) {
      if (host != 1 || at != round || spoilt) return;
      spoilt = true;
      parameters[3] = std::numeric_limits<float>::quiet_NaN();
    };
    const auto policy = [] { return comm::stacked{averaged(2), diloco(3)}; };
    support::elastic_cluster<decltype(policy)> cluster{policy, o};
    cluster.boot();
    REQUIRE(cluster.run(10min));
    CHECK(!cluster.violation());
    CHECK(spoilt);
    CHECK(cluster.checker().samples().done() == cluster.budget());
    for (const float x : cluster.parameters(1)) CHECK(std::isfinite(x));
    const bool same = cluster.parameters(1) == cluster.parameters(0);
    CHECK(same);
  }
}

TEST_CASE("stacked turns: the run's last mean of parameters is of what the first policy made of them", "[comm][fast]") {
  // The first policy goes back to where the run began, in each of its turns, and the last record is one of both.
  const auto policy = [] {
    return comm::stacked{comm::rounds{axis::every{4}, axis::gather_mean<>{}, axis::outer<optim::sgd>{0.0F}}, averaged(3)};
  };
  std::vector<float> begin;
  float gone = 0;
  support::elastic_options o{.peers = 3, .rounds = 10};
  o.watches = [&](std::uint32_t, std::span<const std::int32_t>, std::span<const float> parameters) {
    if (begin.empty()) begin.assign(parameters.begin(), parameters.end());
    gone = std::max(gone, support::farthest(begin, parameters));
  };
  support::elastic_cluster<decltype(policy)> cluster{policy, o};
  cluster.boot();
  REQUIRE(cluster.run(10min));
  CHECK(gone > 0.01F);
  for (std::uint32_t host = 0; host < 3; ++host) CHECK(support::farthest(begin, cluster.parameters(host)) == 0.0F);
}
