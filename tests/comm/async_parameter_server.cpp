// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/async_parameter_server.hpp>

#include <causeway/axis/by_speed.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/optim/nesterov.hpp>
#include <causeway/optim/nesterov_in_parts.hpp>
#include <causeway/optim/sgd.hpp>

#include <cmath>
#include <limits>

#include "support/simulated_runs.hpp"

using namespace causeway;
using support::simulated_options;

namespace {

template <class Inner = optim::sgd, class MakePolicy>
support::simulated_run run(MakePolicy make, simulated_options options) {
  support::simulated_runs<Inner, support::blocky, MakePolicy> runs{make, options};
  auto all = runs.run();
  support::all_alike(all);
  return all;
}

/// Seconds that a peer's inner steps took, exchanges included.
double took(const support::simulated_run& r, std::size_t peer) {
  return seconds(r.peers[peer].trained - r.peers[peer].began);
}

using nesterov = axis::outer<optim::nesterov>;

/// Spoils a parameter of peer 1 after each inner step from `first` to `last`, before Policy comes to it.
template <class Policy>
struct spoiling {
  static constexpr std::string_view name = Policy::name;
  static constexpr comm_traits traits = [] {
    comm_traits t = Policy::traits;
    t.tolerates = peers::fixed;  // it passes on what fixed peers need
    t.moves_with_blocks = t.in_regions = t.talks_between = false;
    return t;
  }();
  static constexpr std::uint32_t state_version = Policy::state_version;

  Policy policy{};
  std::uint64_t first = 0, last = 0;

  result<void> start(auto& ctx) { return policy.start(ctx); }
  result<void> before_inner_step(auto& ctx) { return policy.before_inner_step(ctx); }
  result<void> after_inner_step(auto& ctx) {
    const bool spoils = ctx.self() == 1 && first <= ctx.step() && ctx.step() <= last;
    if (spoils) ctx.parameters()[2] = std::numeric_limits<float>::quiet_NaN();
    return policy.after_inner_step(ctx);
  }
  result<void> finish(auto& ctx) { return policy.finish(ctx); }
  void serialize(auto& ar) { policy.serialize(ar); }
};

}  // namespace

TEST_CASE("async parameter server: a client whose push is not finite starts again from the shared parameters",
          "[comm][fast]") {
  const auto loss = [](auto make_policy, std::uint64_t spoilt) {
    const auto make = [=] {
      return spoiling<decltype(make_policy())>{.policy = make_policy(), .first = spoilt, .last = spoilt};
    };
    const auto all = run(make, {.peers = 4, .steps = 80, .learning_rate = 0.1F});
    return support::distance_to_optimum(all.peers[0].parameters, 4, 80);
  };
  const auto compare = [&](auto make_policy) {
    const double whole = loss(make_policy, UINT64_MAX);
    const double spoilt = loss(make_policy, 39);
    CAPTURE(whole, spoilt);
    CHECK(spoilt != whole);
    CHECK(spoilt < 1.5 * whole + 1e-3);
  };
  compare([] { return comm::async_parameter_server{axis::every{4}, nesterov{0.7F}}; });
  compare([] { return comm::async_parameter_server{axis::every{4}, nesterov{0.7F}, axis::quorum{.least = 4}}; });
  compare([] { return comm::async_parameter_server{axis::every{4}, nesterov{0.7F}, axis::push<compress::block_int8>{}}; });
  // In flight two steps long; two fragments, one of which is pushed earlier: its gradient would be NaN before its push.
  compare([] { return comm::async_parameter_server{axis::every{4}, nesterov{0.7F}, axis::delayed{2, 0.5F}}; });
}

TEST_CASE("async parameter server: a client that pushes nothing finite ends, and the others go on", "[comm][fast]") {
  const auto make = [] {
    using policy = decltype(comm::async_parameter_server{axis::every{1}});
    return spoiling<policy>{.policy = comm::async_parameter_server{axis::every{1}}, .first = 4, .last = UINT64_MAX};
  };
  support::simulated_runs<optim::sgd, support::blocky, decltype(make)> runs{make, {.peers = 3, .steps = 20}};
  const auto all = runs.run();
  REQUIRE(all.peers[1].error);
  CHECK(all.peers[1].error->code == errc::non_finite);
  CHECK(all.peers[1].error->where == "peer 0, the hub");
  CHECK(all.peers[1].rounds == 4 + 8);
  CHECK(all.peers[0].finished);
  CHECK(all.peers[2].finished);
  CHECK(all.peers[0].parameters == all.peers[2].parameters);
}

TEST_CASE("async parameter server: with everybody in the quorum it is a synchronous round, bit for bit", "[comm][fast]") {
  const simulated_options options{.peers = 4, .steps = 12};
  const auto rounds = run([] { return comm::rounds{axis::every{4}}; }, options);
  const auto hub = run(
      [] {
        return comm::async_parameter_server{axis::every{4}, axis::quorum{.least = 4}, nesterov{0.7F}};
      },
      options);
  CHECK(hub.peers[0].parameters == rounds.peers[0].parameters);
}

TEST_CASE("async parameter server: a slow peer does not hold the others up", "[comm][fast]") {
  const simulated_options options{.peers = 3, .steps = 12, .speeds = {1, 1, 0.1}, .latency = std::chrono::milliseconds{1}};
  const auto hub = run([] { return comm::async_parameter_server{axis::every{4}}; }, options);
  CHECK(took(hub, 0) == Approx(12 * 0.02).margin(1e-6));  // the hub waits for nobody
  // A client waits for its answer: a round trip and what is left of the hub's inner step, three times.
  CHECK(took(hub, 1) > 12 * 0.02 + 3 * 0.002);
  CHECK(took(hub, 1) < 12 * 0.02 + 3 * (0.002 + 0.02));
  CHECK(took(hub, 2) > 12 * 0.2);
  const auto rounds = run([] { return comm::rounds{axis::every{4}}; }, options);
  CHECK(took(rounds, 0) > 12 * 0.2);
}

TEST_CASE("async parameter server: nobody is more than so many pushes ahead of the slowest", "[comm][fast]") {
  // 12 steps of 20 ms and 12 of 200 ms, a push every 4: alone the quick one is done before the slow one pushes once.
  const auto quick = [](std::uint32_t most_ahead) {
    const auto make = [most_ahead] {
      return comm::async_parameter_server{axis::every{4}, axis::one_by_one{.most_ahead = most_ahead}};
    };
    return took(run(make, {.peers = 3, .steps = 12, .speeds = {1, 1, 0.1}, .latency = std::chrono::milliseconds{1}}), 1);
  };
  CHECK(quick(axis::no_bound) < 12 * 0.03);
  CHECK(quick(4) < 12 * 0.03);
  // The third push is answered with the slow one's first, second or third.
  CHECK(quick(3) == Approx(4 * 0.2).margin(0.03));
  CHECK(quick(2) == Approx(8 * 0.2).margin(0.03));
  CHECK(quick(1) == Approx(12 * 0.2).margin(0.03));
}

TEST_CASE("async parameter server: what is applied later is not waited for", "[comm][fast]") {
  const auto hub = run(
      [] {
        return comm::async_parameter_server{axis::every{4}, axis::delayed{2, 0.5F}};
      },
      {.peers = 3, .steps = 12, .latency = std::chrono::milliseconds{5}});
  for (std::size_t p = 0; p < 3; ++p) CHECK(took(hub, p) == Approx(12 * 0.02).margin(1e-6));
}

TEST_CASE("async parameter server: slow peers are given fewer steps, so that pushes come at one rate", "[comm][fast]") {
  // The peer at a quarter of the speed does 2 steps instead of 8, from its second push on.
  const auto pushes = [](auto make) {
    support::simulated_runs<optim::sgd, support::blocky, decltype(make)> runs{
        make, {.peers = 2, .steps = 32, .speeds = {1, 0.25}, .latency = std::chrono::milliseconds{1}, .more_steps = {100}}};
    return runs.run().peers[1].rounds;
  };
  CHECK(pushes([] { return comm::async_parameter_server{axis::every{8}}; }) == 4);
  CHECK(pushes([] { return comm::async_parameter_server{axis::by_speed{{.local_steps = 8}}}; }) == 1 + 24 / 2);
}

TEST_CASE("async parameter server: a hub that only serves answers at once", "[comm][fast]") {
  // It takes no steps: finish() is all it does. 5 ms is how often it looks.
  const auto make = [] { return comm::async_parameter_server{axis::every{4}}; };
  support::simulated_runs<optim::sgd, support::blocky, decltype(make)> runs{
      make, {.peers = 3, .steps = 0, .latency = std::chrono::milliseconds{1}, .more_steps = {0, 12, 12}}};
  const auto all = runs.run();
  support::all_alike(all);
  CHECK(took(all, 1) < 12 * 0.02 + 3 * (0.002 + 0.005));
}

TEST_CASE("async parameter server: with two pushes at once the shared parameters move by both", "[comm][fast]") {
  // Outer SGD with rate 1 and one step each: θ = θ0 − Δ_0 − Δ_1, where both started at θ0; merged it is their mean.
  const auto ends = [](auto arrivals) {
    const auto make = [arrivals] {
      return comm::async_parameter_server{axis::every{1}, arrivals, axis::outer<optim::sgd>{1.0F}};
    };
    return run(make, {.peers = 2, .steps = 1, .learning_rate = 0.25F}).peers[0].parameters;
  };
  const auto start = run(
      [] {
        return comm::async_parameter_server{axis::every{1}, axis::outer<optim::sgd>{1.0F}};
      },
      {.peers = 2, .steps = 0});
  const auto both = ends(axis::one_by_one{0.5});
  const auto mean = ends(axis::quorum{.least = 2});
  for (std::size_t i = 0; i < both.size(); ++i) {
    const double base = double(start.peers[0].parameters[i]);
    CHECK(double(both[i]) - base == Approx(2 * (double(mean[i]) - base)).margin(1e-5));
  }
}

TEST_CASE("async parameter server: merged pushes count by their samples", "[comm][fast]") {
  // One peer takes three steps, the other one: their mean is weighted 3 to 1. All pushes are the last ones, of finish().
  const auto weighted = [](std::uint64_t a, std::uint64_t b, auto arrivals) {
    const auto make = [arrivals] {
      return comm::async_parameter_server{axis::every{9}, arrivals, axis::outer<optim::sgd>{1.0F}};
    };
    return run(make, {.peers = 2, .steps = 0, .more_steps = {a, b}}).peers[0].parameters;
  };
  const auto start = weighted(0, 0, axis::quorum{.least = 2});
  const auto first = weighted(3, 0, axis::quorum{.least = 2});
  const auto second = weighted(0, 1, axis::quorum{.least = 2});
  const auto both = weighted(3, 1, axis::quorum{.least = 2});
  for (std::size_t i = 0; i < start.size(); ++i) {
    const double expected = double(start[i]) + 0.75 * double(first[i] - start[i]) + 0.25 * double(second[i] - start[i]);
    CHECK(double(both[i]) == Approx(expected).margin(1e-5));
  }
}

TEST_CASE("async parameter server: pushes that arrive one by one in a quorum of one go where a synchronous round goes",
          "[comm][fast]") {
  // Equal peers of quick rounds: with plain Nesterov the momentum of a push comes back before its peer has seen it.
  const auto loss = [](std::uint32_t least, auto outer) {
    const auto make = [least, outer] {
      return comm::async_parameter_server{axis::every{24}, axis::quorum{.least = least}, outer};
    };
    const auto all = run(make, {.peers = 8, .steps = 30 * 24, .learning_rate = 0.1F});
    return support::distance_to_optimum(all.peers[0].parameters, 8, 30 * 24);
  };
  const axis::outer<optim::nesterov_in_parts> in_parts{0.7F};
  const double synchronous = loss(8, in_parts);
  const double single = loss(1, in_parts);
  const double plain = loss(1, nesterov{0.7F});
  CAPTURE(synchronous, single, plain);
  CHECK(single < 1.2 * synchronous);
  CHECK(plain > 2 * synchronous);
}

TEST_CASE("async parameter server: plain Nesterov on single pushes is clearly worse than delayed Nesterov",
          "[comm][fast]") {
  // Eight peers with speeds that differ by two; the same pushes, rates and momentum.
  const auto loss = [](auto outer) {
    const auto make = [outer] { return comm::async_parameter_server{axis::every{4}, outer}; };
    const auto all =
        run(make, {.peers = 8, .steps = 80, .speeds = {1, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 0.55}, .learning_rate = 0.1F});
    return support::distance_to_optimum(all.peers[0].parameters, 8, 80);
  };
  const double delayed = loss(axis::outer<optim::delayed_nesterov>{0.7F, optim::delayed_nesterov{{.period = 8}}});
  const double plain = loss(nesterov{0.7F});
  // What a push does in all, with its momentum, is N times too much at the same rate; but an N-th of the rate does not
  // help.
  const double slow = loss(nesterov{0.7F / 8});
  CAPTURE(delayed, plain, slow);
  CHECK(plain > 100 * delayed);
  CHECK(slow > 5 * delayed);
  // As many steps of the same peers in synchronous rounds, which take twice as long.
  const auto make = [] { return comm::rounds{axis::every{4}}; };
  const auto rounds = run(make, {.peers = 8, .steps = 80, .learning_rate = 0.1F});
  const double synchronous = support::distance_to_optimum(rounds.peers[0].parameters, 8, 80);
  CAPTURE(synchronous);
  CHECK(delayed < 2 * synchronous);
}
