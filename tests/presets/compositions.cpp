// SPDX-License-Identifier: Apache-2.0
// Which communication preset goes with which parallelism under which fault policy, as the rules say; writes the page of it.
#include <causeway/presets.hpp>

#include <causeway/fault/fail_stop.hpp>
#include <causeway/fault/quorum.hpp>
#include <causeway/fault/restart.hpp>
#include <causeway/parallel/async_pipeline.hpp>
#include <causeway/parallel/data_parallel.hpp>
#include <causeway/parallel/elastic_pipeline.hpp>
#include <causeway/parallel/local_async_pipeline.hpp>
#include <causeway/parallel/local_pipeline.hpp>
#include <causeway/parallel/local_swarm.hpp>
#include <causeway/parallel/pipeline.hpp>
#include <causeway/parallel/swarm.hpp>
#include <causeway/policy/rules.hpp>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "support/catch.hpp"
#include "support/elastic_presets.hpp"
#include "support/written_page.hpp"

using namespace causeway;

namespace {

struct preset {
  const char* name;
  comm_traits traits;
};

#define CAUSEWAY_PRESET(name) \
  preset { #name, presets::name::traits }
constexpr preset communication[] = {
    CAUSEWAY_PRESET(every_step),       CAUSEWAY_PRESET(diloco),        CAUSEWAY_PRESET(open_diloco),
    CAUSEWAY_PRESET(intellect1),       CAUSEWAY_PRESET(muloco),        CAUSEWAY_PRESET(local_sgd),
    CAUSEWAY_PRESET(fedavg),           CAUSEWAY_PRESET(photon),        CAUSEWAY_PRESET(co_learning),
    CAUSEWAY_PRESET(des_loc),          CAUSEWAY_PRESET(edit),          CAUSEWAY_PRESET(streaming_diloco),
    CAUSEWAY_PRESET(eager_diloco),     CAUSEWAY_PRESET(cocodc),        CAUSEWAY_PRESET(sparse_loco),
    CAUSEWAY_PRESET(sparta),           CAUSEWAY_PRESET(sparta_diloco), CAUSEWAY_PRESET(demo),
    CAUSEWAY_PRESET(distro),           CAUSEWAY_PRESET(cocktail_sgd),  CAUSEWAY_PRESET(gaia),
    CAUSEWAY_PRESET(power_sgd),        CAUSEWAY_PRESET(dion),          CAUSEWAY_PRESET(dedloc),
    CAUSEWAY_PRESET(noloco),           CAUSEWAY_PRESET(moshpit_sgd),   CAUSEWAY_PRESET(bacombo),
    CAUSEWAY_PRESET(ravnest),          CAUSEWAY_PRESET(netstorm),      CAUSEWAY_PRESET(async_local_sgd),
    CAUSEWAY_PRESET(decoupled_diloco), CAUSEWAY_PRESET(halos),         CAUSEWAY_PRESET(dlion),
    CAUSEWAY_PRESET(dipaco),           CAUSEWAY_PRESET(gaia_asp),
};
#undef CAUSEWAY_PRESET

struct place {
  const char* name;
  parallel_traits parallel;
  fault_traits fault;
};

constexpr place places[] = {
    {"data, `fail_stop`", parallel::data_parallel::traits, fault::fail_stop::traits},
    {"data, `quorum`", parallel::data_parallel::traits, fault::quorum::traits},
    {"`pipeline`, `fail_stop`", parallel::pipeline<>::traits, fault::fail_stop::traits},
    {"`elastic_pipeline`, `quorum`", parallel::elastic_pipeline<>::traits, fault::quorum::traits},
    {"`local_pipeline`, `quorum`", parallel::local_pipeline<>::traits, fault::quorum::traits},
    {"`async_pipeline`, `fail_stop`", parallel::async_pipeline<>::traits, fault::fail_stop::traits},
    {"`local_async_pipeline`, `quorum`", parallel::local_async_pipeline<>::traits, fault::quorum::traits},
    {"`swarm`, `quorum`", parallel::swarm<>::traits, fault::quorum::traits},
    {"`local_swarm`, `quorum`", parallel::local_swarm<>::traits, fault::quorum::traits},
    {"data, `restart`", parallel::data_parallel::traits, fault::restart::traits},
    {"`pipeline`, `restart`", parallel::pipeline<>::traits, fault::restart::traits},
    {"`async_pipeline`, `restart`", parallel::async_pipeline<>::traits, fault::restart::traits},
};

/// Those that the conformance suite runs in tests/presets and tests/comm: a peer is lost at every network operation, and
/// all go on from the newest round that all hold.
constexpr std::string_view restart_presets[] = {
    "every_step",    "diloco",  "open_diloco", "intellect1",       "muloco",       "local_sgd", "fedavg",      "photon",
    "co_learning",   "des_loc", "edit",        "streaming_diloco", "eager_diloco", "cocodc",    "sparse_loco", "sparta",
    "sparta_diloco", "demo",    "distro",      "cocktail_sgd",     "gaia",         "power_sgd", "dion",        "noloco",
    "moshpit_sgd",   "bacombo", "ravnest",     "netstorm",         "dipaco"};

/// The first rule that refuses it, else "yes".
constexpr const char* verdict_on(const comm_traits& c, const place& at) {
  if (!rules::c1(c, at.fault)) return "C1";
  if (!rules::c2(at.parallel, at.fault)) return "C2";
  if (!rules::c3(c, at.parallel)) return "C3";
  if (!rules::c4(c, at.parallel)) return "C4";
  if (!rules::c5(c, at.parallel)) return "C5";
  if (!rules::c6(c, at.parallel)) return "C6";
  return rules::c7(c, at.parallel) ? "yes" : "C7";
}

bool is_tested(const preset& p, const place& at) {
  const auto among = [&](const auto& tested) {
    return std::find(std::begin(tested), std::end(tested), p.name) != std::end(tested);
  };
  return (&at == &places[1] && among(support::elastic_presets)) ||
         (&at == &places[3] && among(support::elastic_pipeline_presets)) ||
         (&at == &places[4] && among(support::local_pipeline_presets)) ||
         (&at == &places[6] && among(support::local_async_pipeline_presets)) ||
         (&at == &places[8] && among(support::local_swarm_presets)) || (&at == &places[9] && among(restart_presets));
}
std::string cell(const preset& p, const place& at) { return is_tested(p, at) ? "tested" : verdict_on(p.traits, at); }

std::size_t allowed() {
  std::size_t count = 0;
  for (const preset& p : communication) {
    for (const place& at : places) count += std::string{verdict_on(p.traits, at)} == "yes" ? 1U : 0U;
  }
  return count;
}

std::string page() {
  std::ostringstream out;
  out << "# Which presets go with which parallelism, under which fault policy\n\n"
         "Written by `tests/presets/compositions.cpp` from the rules themselves; [what the ids mean](rules.md#c1). A cell "
         "says that\n"
         "a trainer of the three compiles, or which rule refuses it first. *tested*: it also trains on the simulator while "
         "a "
         "peer is\nkilled at every call of its network in turn, and while one joins at every round, with the loss that it "
         "has "
         "without faults\n(`tests/presets/elastic.cpp`, "
         "`tests/parallel/swarm/local_swarm_rounds.cpp`,\n`tests/parallel/swarm/local_swarm_fragments.cpp`, "
         "`tests/parallel/swarm/local_swarm_late.cpp`,\n`tests/parallel/swarm/local_swarm_groups.cpp`,\n"
         "`tests/parallel/elastic/local_pipeline_rounds.cpp`, "
         "`tests/parallel/elastic/local_pipeline_fragments.cpp`,\n`tests/parallel/elastic/local_pipeline_late.cpp`, "
         "`tests/parallel/elastic/local_pipeline_groups.cpp`,\n`tests/parallel/elastic/local_pipeline_stacked.cpp`, "
         "`tests/parallel/local_async_pipeline.cpp`,\n`tests/parallel/elastic/local_async_pipeline_rounds.cpp`, "
         "`tests/parallel/elastic/elastic_gradients.cpp`). "
         "With `restart`: a peer is lost at every one of its network\noperations in turn, all go on from the newest round "
         "that "
         "all hold, and end with the bits of a run without a failure\n(`tests/presets`, `tests/comm`, "
         "`tests/support/conformance.hpp`). "
      << allowed() << " of " << std::size(communication) * std::size(places)
      << " compile. [One step](../design/one_step.md) says what will\n"
         "become of the rest.\n\n| |";
  for (const place& at : places) out << ' ' << at.name << " |";
  out << "\n|---|";
  for (std::size_t i = 0; i < std::size(places); ++i) out << "---|";
  out << '\n';
  for (const preset& p : communication) {
    out << "| `" << p.name << "` |";
    for (const place& at : places) out << ' ' << cell(p, at) << " |";
    out << '\n';
  }
  return out.str();
}

}  // namespace

TEST_CASE("compositions: the page says what the rules say", "[presets][fast]") {
  support::check_written_page(__FILE__, "docs/reference/compositions.md", page());
}

TEST_CASE("compositions: what goes among peers that come and go is tested there", "[presets][fast]") {
  for (const preset& p : communication) {
    INFO(p.name);
    CHECK(is_tested(p, places[1]) == (std::string{verdict_on(p.traits, places[1])} == "yes"));
    CHECK(is_tested(p, places[3]) == (std::string{verdict_on(p.traits, places[3])} == "yes"));
  }
}

TEST_CASE("compositions: what is said to be tested is allowed", "[presets][fast]") {
  for (const preset& p : communication) {
    INFO(p.name);
    for (const place& at : places) {
      if (is_tested(p, at)) CHECK(std::string{verdict_on(p.traits, at)} == "yes");
    }
  }
}

TEST_CASE("compositions: none that goes together today is lost", "[presets][fast]") { CHECK(allowed() >= 167); }
