// SPDX-License-Identifier: Apache-2.0
// Policies over MPI: the bits of the network in memory (which tests/presets hold against TCP and the simulator), also where
// a run is stopped after any step, saved, and goes on from there in a new transport.

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
    env.transport = net::any_transport{support::open_transport()};
    {
      auto trainer = make_trainer(std::move(env));
      runs.run_peer(trainer, job().rank(), stop, false, first);
    }
    REQUIRE(first.error.empty());
    environment again;
    again.transport = net::any_transport{support::open_transport()};
    auto trainer = make_trainer(std::move(again));
    support::load(trainer, first.rounds.rbegin()->second);
    runs.run_peer(trainer, job().rank(), steps, true, second);
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
