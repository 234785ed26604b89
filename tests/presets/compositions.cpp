// SPDX-License-Identifier: Apache-2.0
// Which communication preset goes with which parallelism under which fault policy, as the rules say; writes the page of it.
#include <causeway/presets.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/fault/fail_stop.hpp>
#include <causeway/fault/quorum.hpp>
#include <causeway/fault/restart.hpp>
#include <causeway/parallel/async_pipeline.hpp>
#include <causeway/parallel/data_parallel.hpp>
#include <causeway/parallel/pipeline.hpp>
#include <causeway/parallel/swarm.hpp>
#include <causeway/policy/executor.hpp>
#include <causeway/policy/rules.hpp>
#include <causeway/train/pipeline_executors.hpp>
#include <causeway/train/swarm_executors.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
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
    CAUSEWAY_PRESET(dipaco),           CAUSEWAY_PRESET(gaia_asp),      CAUSEWAY_PRESET(a_edit),
    CAUSEWAY_PRESET(stella_train),
};
#undef CAUSEWAY_PRESET

using presets_list = std::span<const std::string_view>;

/// A parallelism under a fault policy, and the presets that are trained there while peers are lost.
struct composition {
  parallel_traits parallel;
  fault_traits fault;
  presets_list tested{};
  bool all_tested = false;  ///< all that the rules let
};

/// A column. Among peers that come and go stages have two parallelisms: one for policies that exchange gradients, one for
/// those whose peers take steps of their own.
struct place {
  const char* name;
  composition of_gradients;
  composition of_local_steps;
};

constexpr composition among_whole_models{parallel::data_parallel::traits, fault::quorum<>::traits,
                                         support::elastic_presets};
// The executors that a trainer takes.
template <class Parallel, class Comm>
constexpr parallel_traits under_quorum = executor_of<Parallel, Comm, fault::quorum<>>::traits;
using sums = comm::every_step<>;
using steps_alone = comm::rounds<>;

constexpr composition in_pipelines{under_quorum<parallel::pipeline<>, sums>, fault::quorum<>::traits,
                                   support::elastic_pipeline_presets};
constexpr composition in_local_pipelines{under_quorum<parallel::pipeline<>, steps_alone>, fault::quorum<>::traits,
                                         support::local_pipeline_presets};
constexpr composition in_async_pipelines{under_quorum<parallel::async_pipeline<>, steps_alone>, fault::quorum<>::traits,
                                         support::local_async_pipeline_presets};
constexpr composition in_swarms{under_quorum<parallel::swarm<>, sums>, fault::quorum<>::traits, support::swarm_presets};
constexpr composition in_local_swarms{under_quorum<parallel::swarm<>, steps_alone>, fault::quorum<>::traits,
                                      support::local_swarm_presets};

constexpr place one(const char* name, const composition& m) { return {name, m, m}; }

template <class Parallel, class Fault>
constexpr place fixed(const char* name) {
  return one(name, {.parallel = Parallel::traits, .fault = Fault::traits, .all_tested = true});
}

constexpr place places[] = {
    fixed<parallel::data_parallel, fault::fail_stop>("data, `fail_stop`"),
    fixed<parallel::data_parallel, fault::restart>("data, `restart`"),
    one("data, `quorum`", among_whole_models),
    fixed<parallel::pipeline<>, fault::fail_stop>("`pipeline`, `fail_stop`"),
    fixed<parallel::pipeline<>, fault::restart>("`pipeline`, `restart`"),
    {"`pipeline`, `quorum`", in_pipelines, in_local_pipelines},
    fixed<parallel::async_pipeline<>, fault::fail_stop>("`async_pipeline`, `fail_stop`"),
    fixed<parallel::async_pipeline<>, fault::restart>("`async_pipeline`, `restart`"),
    one("`async_pipeline`, `quorum`", in_async_pipelines),
    {"`swarm`, `quorum`", in_swarms, in_local_swarms},
};

const composition& at(const preset& p, const place& where) {
  // What swarms gather is computed late.
  const bool late = p.traits.allows_late_steps && where.of_local_steps.parallel.computes_late;
  return p.traits.exchanges_gradients && !late ? where.of_gradients : where.of_local_steps;
}

/// The first rule that refuses it, else "yes".
constexpr const char* verdict_on(const comm_traits& c, const composition& at) {
  if (!rules::c1(c, at.fault)) return "C1";
  if (!rules::c2(at.parallel, at.fault)) return "C2";
  if (!rules::c3(c, at.parallel)) return "C3";
  if (!rules::c4(c, at.parallel)) return "C4";
  if (!rules::c5(c, at.parallel)) return "C5";
  if (!rules::c6(c, at.parallel)) return "C6";
  return rules::c7(c, at.parallel) ? "yes" : "C7";
}
std::string outcome(const preset& p, const place& where) { return verdict_on(p.traits, at(p, where)); }

bool is_tested(const preset& p, const place& where) {
  if (at(p, where).all_tested) return outcome(p, where) == "yes";
  const presets_list tested = at(p, where).tested;
  return std::find(tested.begin(), tested.end(), p.name) != tested.end();
}

std::size_t count(std::string_view what) {
  std::size_t found = 0;
  for (const preset& p : communication) {
    for (const place& where : places) {
      const bool counts = what == "tested" ? is_tested(p, where) : outcome(p, where) == what;
      found += counts ? 1U : 0U;
    }
  }
  return found;
}

constexpr const char* introduction =
    R"(# Which presets go with which parallelism, under which fault policy

Written by `tests/presets/compositions.cpp` from the rules themselves; [what the ids mean](rules.md#c1). A cell says that a trainer of
the three is tested, or which rule refuses it first. [Which class computes](../policies/quorum.md) follows from the three.

*tested*, with `quorum`: it also trains on the simulator while a peer is killed at calls of its network all over a run (at every 11th,
policies of each kind at every single one), and while one joins at every round, with the loss that it has without faults (data:
`tests/presets/elastic.cpp`; pipelines: `elastic_gradients.cpp`, `elastic_gathered.cpp`, `local_pipeline_*.cpp` and `local_async_pipeline_*.cpp` in
`tests/parallel/elastic`; swarms: `swarm_gradients.cpp` and `local_swarm_*.cpp` in `tests/parallel/swarm`). With a fixed set of
peers: at each network operation of a run one of them is lost; under `fail_stop` all others come back instead of waiting for ever, and
under `restart` all go on from the newest round that all hold, and end with the bits of a run without a failure
(`tests/support/conformance.hpp` in `tests/presets` and `tests/comm`; stages, and policies whose peers do not keep step, in
`tests/presets/in_pipelines`). Not the same bits have asynchronous pipelines, which go on without the micro-batches that were in flight,
and policies in which it matters who was quicker: there all end, and replicas that end alike without a failure do so with it.

)";

std::string page() {
  std::ostringstream out;
  out << introduction << count("tested") << " of " << std::size(communication) * std::size(places)
      << " are tested so. The [rules](rules.md) that refuse the others state mathematics.\n\n| |";
  for (const place& where : places) out << ' ' << where.name << " |";
  out << "\n|---|";
  for (std::size_t i = 0; i < std::size(places); ++i) out << "---|";
  out << '\n';
  for (const preset& p : communication) {
    out << "| `" << p.name << "` |";
    for (const place& where : places) out << ' ' << (is_tested(p, where) ? "tested" : outcome(p, where)) << " |";
    out << '\n';
  }
  return out.str();
}

}  // namespace

TEST_CASE("compositions: the page says what the rules say", "[presets][fast]") {
  support::check_written_page(__FILE__, "docs/reference/compositions.md", page());
}

TEST_CASE("compositions: what goes together is tested there", "[presets][fast]") {
  for (const preset& p : communication) {
    INFO(p.name);
    for (const place& where : places) CHECK(is_tested(p, where) == (outcome(p, where) == "yes"));
  }
}

// The conformance suite has the others, of which each peer holds the whole model.
TEST_CASE("compositions: what goes in pipelines of a fixed set of peers is tested there", "[presets][fast]") {
  std::ostringstream sources;
  const std::filesystem::path here{__FILE__};
  for (const auto& file : std::filesystem::directory_iterator{here.parent_path() / "in_pipelines"}) {
    sources << std::ifstream{file.path()}.rdbuf();
  }
  for (const preset& p : communication) {
    INFO(p.name);
    const bool named =
        sources.str().find("::" + std::string{p.name} + (p.name == std::string_view{"every_step"} ? "<>" : "_options")) !=
        std::string::npos;
    CHECK(named == (outcome(p, places[3]) == "yes"));
  }
}

TEST_CASE("compositions: the page leaves nothing out that goes together", "[presets][fast]") {
  for (const preset& p : communication) {
    INFO(p.name);
    for (const place& where : places) {
      const composition& other = p.traits.exchanges_gradients ? where.of_local_steps : where.of_gradients;
      if (std::string_view{verdict_on(p.traits, other)} == "yes") CHECK(outcome(p, where) == "yes");
    }
  }
}

TEST_CASE("compositions: all that goes together is tested, and the rest is what mathematics refuses", "[presets][fast]") {
  CHECK(count("tested") == count("yes"));
  CHECK(count("yes") >= 353);
  for (const preset& p : communication) {
    INFO(p.name);
    for (const place& where : places) {
      const std::string is = outcome(p, where);
      const bool by_clock = p.traits.rounds_by_clock && (is == "C3" || is == "C4");
      const bool gathers = p.traits.gathers_samples && is == "C3";
      // Gradients of every step, where peers step alone.
      const bool gradients = p.traits.exchanges_gradients && is == "C7" && where.of_gradients.parallel.moves_blocks;
      CHECK((is == "yes" || by_clock || gathers || gradients));
    }
  }
}
