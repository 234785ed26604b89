// SPDX-License-Identifier: Apache-2.0
// Policies over MPI: the bits of the network in memory (which tests/presets hold against TCP and the simulator), also where
// a run is stopped after any step, saved, and goes on from there in a new transport.

#include <causeway/axis/own_sum_mean.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/local_updates.hpp>
#include <causeway/presets/overlapped.hpp>

#include "support/blocky.hpp"
#include "support/conformance.hpp"
#include "support/mpi.hpp"

using namespace causeway;
using presets::make;
using support::blocky;
using support::job;
using support::quadratic;

namespace {

/// Whose sums have the bits of messages over any network.
net::any_transport open_with_same_bits() { return net::any_transport{support::open_transport({.own_sums = false})}; }

template <class M, class MakePolicy>
void check_over_mpi(MakePolicy make_policy, std::uint64_t steps = 7) {
  const support::conformance_options options{.peers = job().size(), .steps = steps};
  const auto make_trainer = [&](environment env) {
    return support::conforming_trainer<M>(std::move(env), make_policy(), optim::adamw{});
  };
  support::trainer_runs runs{make_trainer, options};
  const auto reference = runs.run({}, steps, true);  // in memory, on threads that never call MPI

  for (std::uint64_t stop = 0; stop <= steps; ++stop) {
    INFO("stopped after step " << stop);
    support::peer_history first, second;
    environment env;
    env.transport = open_with_same_bits();
    {
      const auto trainer = runs.make(std::move(env));
      runs.run_peer(*trainer, job().rank(), stop, false, first);
    }
    REQUIRE(first.error.empty());
    environment again;
    again.transport = open_with_same_bits();
    const auto trainer = runs.make(std::move(again));
    trainer->load(first.rounds.rbegin()->second);
    runs.run_peer(*trainer, job().rank(), steps, true, second);
    REQUIRE(second.error.empty());
    const bool same = second.parameters == reference[job().rank()].parameters;
    CHECK(same);
  }
}

}  // namespace

TEST_CASE("mpi: every step has the bits of other networks", "[mpi]") {
  check_over_mpi<quadratic>([] { return comm::every_step<>{}; });
  check_over_mpi<blocky>([] { return comm::every_step<>{}; });
}

TEST_CASE("mpi: DiLoCo has the bits of other networks", "[mpi]") {
  check_over_mpi<blocky>([] { return make(presets::diloco_options{.local_steps = 3}); });
}

TEST_CASE("mpi: Streaming DiLoCo has the bits of other networks", "[mpi]") {
  check_over_mpi<blocky>([] {
    return make(presets::streaming_diloco_options{.local_steps = 6, .blocks_in_fragment = 2, .overlap_steps = 2});
  });
}

TEST_CASE("mpi: SparseLoCo has the bits of other networks", "[mpi]") {
  check_over_mpi<blocky>([] { return make(presets::sparse_loco_options{.local_steps = 3, .k = 4}); });
}

// ---- by MPI's own sums: the order is MPI's, so that bits are those of other networks where there are two ranks
// ------------

namespace {

template <class M, class MakePolicy>
void check_own_sums(MakePolicy make_policy) {
  constexpr std::uint64_t steps = 7;
  const support::conformance_options options{.peers = job().size(), .steps = steps};
  const auto make_trainer = [&](environment env) {
    return support::conforming_trainer<M>(std::move(env), make_policy(), optim::adamw{});
  };
  support::trainer_runs runs{make_trainer, options};
  const auto reference = runs.run({}, steps, true);
  const auto over_mpi = [&](std::uint64_t stop) {
    support::peer_history first, second;
    environment env, again;
    env.transport = net::any_transport{support::open_transport()};
    {
      const auto trainer = runs.make(std::move(env));
      runs.run_peer(*trainer, job().rank(), stop, stop == steps, first);
    }
    REQUIRE(first.error.empty());
    if (stop == steps) return first.parameters;
    again.transport = net::any_transport{support::open_transport()};
    const auto trainer = runs.make(std::move(again));
    trainer->load(first.rounds.rbegin()->second);
    runs.run_peer(*trainer, job().rank(), steps, true, second);
    REQUIRE(second.error.empty());
    return second.parameters;
  };
  const auto whole = over_mpi(steps);
  const auto& expected = reference[job().rank()].parameters;
  REQUIRE(whole.size() == expected.size());
  for (std::size_t i = 0; i < whole.size(); ++i) CHECK(whole[i] == Approx(expected[i]).epsilon(1e-4).margin(1e-5));
  if (job().size() == 2) CHECK((whole == expected));
  for (std::uint64_t stop = 0; stop < steps; ++stop) {
    INFO("stopped after step " << stop);
    const bool same = over_mpi(stop) == whole;  // MPI adds in the same order again
    CHECK(same);
  }
}

}  // namespace

TEST_CASE("mpi: every step by MPI's own sums", "[mpi]") {
  check_own_sums<blocky>([] { return comm::every_step<>{}; });
}

TEST_CASE("mpi: a mean that MPI moves beside inner steps, begun in one hook and finished in another", "[mpi]") {
  check_own_sums<blocky>([] {
    return comm::rounds{axis::every{4}, axis::delayed{2}, axis::own_sum_mean{},
                        axis::outer<optim::nesterov>{0.7F, optim::nesterov{}}};
  });
}
