// SPDX-License-Identifier: Apache-2.0
// Which communication preset goes with which parallelism under which fault policy, as the rules say; writes the page of it.
#include <causeway/presets.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/fault/fail_stop.hpp>
#include <causeway/fault/quorum.hpp>
#include <causeway/fault/restart.hpp>
#include <causeway/parallel/async_pipeline.hpp>
#include <causeway/parallel/data_parallel.hpp>
#include <causeway/parallel/elastic/cohorts.hpp>
#include <causeway/parallel/pipeline.hpp>
#include <causeway/parallel/swarm.hpp>
#include <causeway/policy/executor.hpp>
#include <causeway/policy/rules.hpp>
#include <causeway/stage/recovery_morph.hpp>
#include <causeway/stage/recovery_neighbour.hpp>
#include <causeway/stage/recovery_proactive.hpp>
#include <causeway/stage/recovery_redundant.hpp>
#include <causeway/stage/recovery_redundant_forward.hpp>
#include <causeway/stage/recovery_reroute.hpp>
#include <causeway/stage/recovery_swapped.hpp>
#include <causeway/stage/recovery_templates.hpp>
#include <causeway/train/pipeline_executors.hpp>
#include <causeway/train/swarm_executors.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/elastic_presets.hpp"
#include "support/test_source.hpp"
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
  if (!rules::c7(c, at.parallel)) return "C7";
  return rules::c8(c, at.parallel) ? "yes" : "C8";
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
    for (const place& where : places)
      found += (what == "tested" ? is_tested(p, where) : outcome(p, where) == what) ? 1U : 0U;
  }
  return found;
}

// ---- what becomes of lost stages, by what pipelines exchange -----------------------------------------------------------

/// A row of the second table: what the rules say for gradients that are added up, gradients that the policy exchanges, and
/// local steps; and why not, of the latter two.
struct recovery_row {
  std::string_view name;
  const char* verdicts[3];
  const char* why[2] = {"", ""};
};

template <class Recovery, class Comm>
constexpr const char* verdict_with = verdict_on(Comm::traits,
                                                {executor_of<parallel::pipeline<>, Comm, fault::quorum<Recovery>>::traits,
                                                 fault::quorum<Recovery>::traits});

template <class Recovery>
constexpr recovery_row with(const char* why_not_rows = "", const char* why_not_steps = "") {
  using rows = comm::every_step<compress::block_int8>;
  return {Recovery::name,
          {verdict_with<Recovery, sums>, verdict_with<Recovery, rows>, verdict_with<Recovery, steps_alone>},
          {why_not_rows, why_not_steps}};
}

constexpr recovery_row recoveries[] = {
    with<stage::recovery::regroup>(),
    with<stage::recovery::redundant>(),
    with<stage::recovery::redundant_forward>(),
    with<stage::recovery::templates>(),
    with<stage::recovery::morph>(),
    with<stage::recovery::proactive>(),
    with<stage::recovery::reroute>(
        "",
        "a micro-batch that goes through another pipeline meets another replica's parameters: its gradient is of no loss"),
    with<stage::recovery::neighbour_init>(),
    with<stage::recovery::swapped_neighbours>(),
};
// Where they are tested.
constexpr std::string_view recovery_tests[3] = {"elastic_*.cpp", "elastic_gradient_*.cpp",
                                                "local_pipeline_recoveries.cpp`, `local_pipeline_apart.cpp"};

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

std::string in_parts(bool gradients, bool unless_repeated = false) {
  std::string names;
  for (const preset& p : communication) {
    if (!p.traits.rows_in_parts || p.traits.exchanges_gradients != gradients) continue;
    if (unless_repeated && rules::c8(p.traits, {.repeats_work = true})) continue;
    names += (names.empty() ? "`" : ", `") + std::string{p.name} + "`";
  }
  return names;
}

std::string page() {
  std::ostringstream out;
  out << introduction << count("tested") << " of " << std::size(communication) * std::size(places)
      << " are tested so. The [rules](rules.md) that refuse the others state mathematics, or a gap (C6).\n\n| |";
  for (const place& where : places) out << ' ' << where.name << " |";
  out << "\n|---|";
  for (std::size_t i = 0; i < std::size(places); ++i) out << "---|";
  out << '\n';
  for (const preset& p : communication) {
    out << "| `" << p.name << "` |";
    for (const place& where : places) out << ' ' << (is_tested(p, where) ? "tested" : outcome(p, where)) << " |";
    out << '\n';
  }
  out << "\n## Recoveries\n\nWhat `fault::quorum{recovery}` goes with, by what pipelines exchange; rule [C8](rules.md#c8) "
         "refuses the others. *tested*: a peer is killed at\nnetwork calls all over a run, and a stage that nobody has is "
         "made up or waited for, in `tests/parallel/elastic`.\n\n| | gradients, added up (`"
      << recovery_tests[0] << "`) | gradients, exchanged by the policy (`" << recovery_tests[1] << "`) | local steps (`"
      << recovery_tests[2] << "`) |\n|---|---|---|---|\n";
  for (const recovery_row& r : recoveries) {
    out << "| `" << r.name << "` |";
    for (std::size_t c = 0; c < 3; ++c) {
      const bool goes = r.verdicts[c] == std::string_view{"yes"};
      out << ' ' << (goes || c == 0 ? (goes ? "tested" : r.verdicts[c]) : r.why[c - 1]) << " |";
    }
    out << '\n';
  }
  out << "\nOf presets ([each with each recovery](settings.md#what-goes-together)), `redundant`, `redundant_forward` and "
         "`templates` go with `every_step` and with those whose rows can be of\nranges of blocks. Gradients: "
      << in_parts(true) << " (not with `redundant_forward`: " << in_parts(true, true)
      << ").\nLocal steps: " << in_parts(false) << ".\n";
  return out.str();
}

/// What `r` makes of a cluster, and of what is left of it without any one peer, or two: whether all of these layouts have
/// the same stages in all pipelines, one for each peer; by a recovery with detours some may have nobody.
template <class Recovery>
bool always_alike(Recovery r) {
  stage::cluster_snapshot all;
  all.layers = 6;
  all.micro_batches = 12;
  for (std::uint64_t id = 1; id <= 9; ++id) all.peers.push_back({.id = id, .holds = {{0, all.layers}}});
  const auto first = r.arrange(all);
  REQUIRE(first);
  bool alike = parallel::check_alike(*first, Recovery::name, stage::Rerouting<Recovery>).has_value();
  all.step = 1;
  for (stage::present_peer& p : all.peers) {
    stage::layout::place at;
    const stage::assignment* const a = first->find(p.id, &at);
    p.holds = a != nullptr ? a->held() : std::vector<nn::block_range>{};
    if (a != nullptr) p.computes = a->computes, p.replica = static_cast<std::uint32_t>(at.replica);
  }
  for (std::uint64_t lost = 1; lost <= 9; ++lost) {
    for (std::uint64_t other = lost; other <= 9; ++other) {
      stage::cluster_snapshot left = all;
      std::erase_if(left.peers, [=](const stage::present_peer& p) { return p.id == lost || p.id == other; });
      const auto next = r.arrange(left);
      REQUIRE(next);
      alike = alike && parallel::check_alike(*next, Recovery::name, stage::Rerouting<Recovery>);
    }
  }
  return alike;
}
template <class Recovery>
bool says_what_it_does(Recovery r) {
  return always_alike(std::move(r)) == Recovery::traits.cut_alike;
}

}  // namespace

TEST_CASE("compositions: recoveries say whether pipelines are cut alike, and the table what the rules say of that",
          "[presets][fast]") {
  using namespace stage::recovery;
  CHECK(says_what_it_does(regroup{3}));
  CHECK(says_what_it_does(redundant{3}));
  CHECK(says_what_it_does(redundant_forward{3}));
  CHECK(says_what_it_does(templates{{.failures = 1, .most_peers = 9, .model = {}, .kind = {.memory = 3}}}));
  CHECK(says_what_it_does(morph{{.calibration = {}, .device_memory = 4}}));
  CHECK(says_what_it_does(proactive{{.device_memory = 2, .samples = 8}}));
  CHECK(says_what_it_does(reroute{3}));
  CHECK(says_what_it_does(neighbour_init{}));
  CHECK(says_what_it_does(swapped_neighbours{}));
  std::string tests[3];
  for (const auto* of : {"recovery.cpp", "subspace.cpp", "swapped.cpp"}) tests[0] += support::test_source("elastic_", of);
  tests[1] = support::test_source("elastic_gradient_", "recoveries.cpp") + support::test_source("segment_", "world.hpp");
  for (const auto* of : {"recoveries.cpp", "apart.cpp"}) tests[2] += support::test_source("local_pipeline_", of);
  for (std::size_t c : {1U, 2U}) tests[c] += support::test_source("local_pipeline_", "world.hpp");
  for (const recovery_row& r : recoveries) {
    INFO(r.name);
    CHECK(r.verdicts[0] == std::string_view{"yes"});
    for (std::size_t c = 0; c < 3; ++c) {
      const bool goes = r.verdicts[c] == std::string_view{"yes"};
      CHECK((goes || r.verdicts[c] == std::string_view{"C8"}));
      CHECK((tests[c].find(std::string{r.name} + "{") != std::string::npos ||
             tests[c].find("_block_" + std::string{r.name}) != std::string::npos) == goes);
      if (c > 0) CHECK((r.why[c - 1] == std::string_view{}) == goes);
    }
  }
}

TEST_CASE("compositions: presets whose rows can be in parts are tested where pipelines are cut apart", "[presets][fast]") {
  std::string tests[] = {
      support::test_source("movement_", "policies.hpp") + support::test_source("clock_", "of_replicas.hpp"),
      support::test_source("whole_", "rounds.hpp")};
  for (const auto* of : {"apart.cpp", "apart_policies.cpp", "apart_speed.cpp", "apart_paths.cpp"})
    tests[0] += support::test_source("local_pipeline_", of);
  for (const auto* of : {"segments.cpp", "ahead.cpp"}) tests[1] += support::test_source("elastic_gradient_", of);
  for (const preset& p : communication) {
    INFO(p.name);
    const auto at = tests[p.traits.exchanges_gradients].find("presets::" + std::string{p.name} + "_options");
    CHECK((at != std::string::npos) == p.traits.rows_in_parts);
  }
}

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

TEST_CASE("compositions: all that goes together is tested, and the rest is refused for a reason", "[presets][fast]") {
  CHECK(count("tested") == count("yes"));
  CHECK(count("yes") >= 357);
  for (const preset& p : communication) {
    INFO(p.name);
    for (const place& where : places) {
      const std::string is = outcome(p, where);
      const bool by_clock = p.traits.rounds_by_clock && (is == "C3" || is == "C6");
      const bool gathers = p.traits.gathers_samples && is == "C3";
      // Gradients of every step, where peers step alone.
      const bool gradients = p.traits.exchanges_gradients && is == "C7" && where.of_gradients.parallel.moves_blocks;
      CHECK((is == "yes" || by_clock || gathers || gradients));
    }
  }
}
