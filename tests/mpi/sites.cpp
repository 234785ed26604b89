// SPDX-License-Identifier: Apache-2.0
// Sites of two ranks each, whose gradients MPI adds up, with any rounds between them: the bits of as many processes that
// have two micro-batches each.

#include <causeway/collective/mpi_site.hpp>
#include <causeway/compress/bf16.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/local_updates.hpp>
#include <causeway/presets/overlapped.hpp>

#include "support/conformance.hpp"
#include "support/mpi.hpp"
#include "support/sites.hpp"

using namespace causeway;
using presets::make;
using support::job;

namespace {

template <class MakePolicy>
void check_sites(MakePolicy make_policy) {
  constexpr std::uint64_t steps = 7;
  const support::conformance_options options{.peers = job().size() / 2, .steps = steps, .sequences = 2};
  support::trainer_runs runs{[&](environment env) { return support::alone_trainer(std::move(env), make_policy(), 2); },
                             options};
  const auto expected = runs.run({}, steps, true);  // in memory, on threads that never call MPI

  const auto pair = job().split(job().rank() / 2), firsts = job().split(job().rank() % 2);
  REQUIRE(pair);
  REQUIRE(firsts);
  const auto site = collective::mpi_site::open(*pair);
  REQUIRE(site);
  if (pair->rank() == 1) {
    support::blocky model;
    REQUIRE(serve_site(**site, model));
    return;
  }
  environment env;
  auto between = net::mpi_transport::open(*firsts, {.own_sums = false});
  REQUIRE(between);
  env.transport = net::any_transport{std::move(*between)};
  support::peer_history mine;
  const support::trainer_runs sites{
      [&](environment e) { return support::site_trainer(std::move(e), make_policy(), *site); }, options};
  const auto trainer = sites.make(std::move(env));
  runs.run_peer(*trainer, firsts->rank(), steps, true, mine);
  REQUIRE(dismiss_site(**site));
  REQUIRE(mine.error.empty());
  const bool same = mine.parameters == expected[firsts->rank()].parameters;
  CHECK(same);
}

}  // namespace

TEST_CASE("mpi sites: every step between them", "[mpi]") {
  check_sites([] { return comm::every_step<>{}; });
}

TEST_CASE("mpi sites: DiLoCo between them", "[mpi]") {
  check_sites([] { return make(presets::diloco_options{.local_steps = 3}); });
}

TEST_CASE("mpi sites: Streaming DiLoCo between them", "[mpi]") {
  check_sites([] {
    return make(presets::streaming_diloco_options{.local_steps = 6, .blocks_in_fragment = 2, .overlap_steps = 2});
  });
}

TEST_CASE("mpi sites: SparseLoCo between them", "[mpi]") {
  check_sites([] { return make(presets::sparse_loco_options{.local_steps = 3, .k = 4}); });
}

TEST_CASE("mpi sites: rounds of one's own between them", "[mpi]") {
  check_sites([] {
    return comm::rounds{axis::every{2}, axis::strided{}, axis::split_mean<compress::bf16>{}, axis::error_feedback{},
                        axis::outer<optim::nesterov>{0.5F, optim::nesterov{}}};
  });
}
