// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/global_samples.hpp>

#include <causeway/comm/rounds.hpp>
#include <causeway/net/memory_transport.hpp>
#include <causeway/optim/sgd.hpp>

#include "support/named_loss.hpp"
#include "support/simulated_runs.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

constexpr auto policy = [] { return comm::rounds{axis::global_samples{16}, axis::gradient{}, axis::split_mean<>{}}; };
using runs_type = support::simulated_runs<optim::sgd, support::blocky, decltype(policy)>;

/// What a trigger asks of a context.
struct peer {
  net::any_transport network;
  net::any_transport& transport() { return network; }
  [[nodiscard]] std::uint32_t peers() const { return network.size(); }
  [[nodiscard]] net::peer_index self() const { return network.self(); }
};

}  // namespace

TEST_CASE("global samples: news that come when it has gone do not go into its memory", "[axis][fast]") {
  net::memory_network network{2};
  peer a{net::any_transport{network.transport(0)}}, b{net::any_transport{network.transport(1)}};
  {
    axis::global_samples gone{10};
    gone.open(a);
  }
  axis::global_samples here{10}, there{10};
  here.open(a);
  there.open(b);
  REQUIRE(there.reached(b, 4));
  const auto enough = here.reached(a, 6);
  REQUIRE(enough);
  CHECK(*enough);
  CHECK(here.total(6) == 10);
  const axis::global_samples like_it{here};  // hears nobody
  CHECK(like_it.target() == 10);
  CHECK(like_it.total(6) == 6);
}

TEST_CASE("global samples: peers of unequal speed make one problem, and end alike", "[axis][fast]") {
  // One sample a step; speeds 1, 2, 4 for as long: 8 + 16 + 32 samples, 16 for each of three rounds, 8 left over.
  support::simulated_options options{
      .peers = 3, .steps = 8, .speeds = {1, 2, 4}, .more_steps = {0, 8, 24}, .hubs = {0, 1, 2}};
  runs_type runs{policy, options};
  const auto run = runs.run();
  support::all_alike(run);
  CHECK(run.peers[0].rounds >= 2);
  CHECK(run.peers[0].rounds <= 4);
  CHECK(runs.run().history == run.history);
  // Nobody waits for the slow peer: eight of its steps take 160 ms.
  CHECK(run.peers[2].trained - run.peers[2].began < 250ms);
}

TEST_CASE("global samples: the schedule counts rounds, which are alike, and not steps, which are not", "[axis][fast]") {
  support::simulated_options options{
      .peers = 3, .steps = 8, .speeds = {1, 2, 4}, .warmup = 6, .more_steps = {0, 8, 24}, .hubs = {0, 1, 2}};
  runs_type runs{policy, options};
  support::all_alike(runs.run());
}

TEST_CASE("global samples: with equal peers and a target of one step it is every step", "[axis][fast]") {
  const auto make = [] { return comm::rounds{axis::global_samples{3}, axis::gradient{}, axis::gather_mean<>{}}; };
  support::simulated_options options{.peers = 3, .steps = 6, .latency = 0ms, .bytes_per_s = 1e15};
  support::simulated_runs<optim::sgd, support::blocky, decltype(make)> runs{make, options};
  const auto run = runs.run();
  support::all_alike(run);
}

TEST_CASE("global samples: a lost peer ends the run of the others with its name", "[axis][fast]") {
  support::simulated_options options{.peers = 3, .steps = 8, .hubs = {0, 1, 2}};
  runs_type runs{policy, options};
  CHECK(support::others_name_the_lost(runs) > 0);
}

TEST_CASE("global samples: a target of nothing is refused", "[axis][fast]") {
  CHECK(axis::global_samples{0}.check(1).error().code == errc::invalid_argument);
}
