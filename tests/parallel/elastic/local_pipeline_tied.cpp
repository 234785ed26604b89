// SPDX-License-Identifier: Apache-2.0
// A model whose output layer is the token table, where replicas take steps of their own: both ends of a replica hold it,
// and it is one table all the time.
#include <causeway/parallel/local_pipeline.hpp>

#include <causeway/parallel/local_async_pipeline.hpp>
#include <causeway/presets/asynchronous.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/gossip.hpp>
#include <causeway/presets/local_updates.hpp>
#include <causeway/presets/overlapped.hpp>
#include <causeway/stage/recovery_neighbour.hpp>
#include <causeway/stage/recovery_redundant.hpp>
#include <causeway/stage/recovery_redundant_forward.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "parallel/elastic/elastic_cases.hpp"
#include "parallel/elastic/local_pipeline_world.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "support/catch.hpp"

using namespace causeway;
using support::elastic_world_options;
using support::local_world;
using support::parameters;

namespace {

/// The table and its moments, of each replica after each step since an exchange.
class tables_of_replicas {
 public:
  void note(auto& trainer) {
    const auto* const group = trainer.context().membership().steps();
    const stage::layout& layout = trainer.parallel().layout();
    stage::layout::place at;
    const stage::assignment* const own = layout.find(group->identity(), &at);
    auto& model = trainer.model();
    if (own == nullptr || model.tied_table() == nn::not_held) return;
    std::vector<float> all;
    const auto add = [&](std::span<float> flat) {
      const auto table = parallel::table_in(model, flat);
      all.insert(all.end(), table.begin(), table.end());
    };
    add(trainer.context().parameters());
    for (const std::span<float> moment : trainer.context().inner().moments()) add(moment);
    of_step& step = steps_[{group->record().state, trainer.context().step(), layout.replicas[at.replica].assigned()}];
    step.bits.insert(std::move(all));
    step.first = step.first || !own->holds(model.blocks() - 1);
    step.last = step.last || !own->holds(0);
  }
  /// Steps of replicas with a peer that holds it as embedding only, and one that does as output layer only.
  [[nodiscard]] std::size_t shared() const {
    std::size_t n = 0;
    for (const auto& [name, step] : steps_) n += step.first && step.last ? 1 : 0;
    return n;
  }
  [[nodiscard]] bool equal() const {
    for (const auto& [name, step] : steps_) {
      if (step.bits.size() != 1) return false;
    }
    return true;
  }

 private:
  struct of_step {
    std::set<std::vector<float>> bits;
    bool first = false, last = false;
  };
  std::map<std::tuple<std::uint64_t, std::uint64_t, std::vector<std::uint64_t>>, of_step> steps_;
};
tables_of_replicas tables;

/// Of two stages, and hosts for two pipelines of them, unless they say otherwise.
template <class Options>
struct tied : Options {
  static constexpr bool tie = true;
  static auto recovery() {
    if constexpr (requires { Options::recovery(); }) {
      return Options::recovery();
    } else {
      return stage::recovery::regroup{2};
    }
  }
  static void stepped(auto& trainer) { tables.note(trainer); }
};
template <class Recovery, std::int64_t Stages, class Options = presets::diloco_options>
struct with : Options {
  static auto recovery() { return Recovery{Stages}; }
};
using diloco = tied<presets::diloco_options>;
using sparse = tied<presets::sparse_loco_options>;
using eight_bits = tied<presets::intellect1_options>;
using three_stages = tied<with<stage::recovery::regroup, 3>>;
using redundant = tied<with<stage::recovery::redundant, 2>>;
using three_redundant = tied<with<stage::recovery::redundant, 3>>;
using sparse_redundant = tied<with<stage::recovery::redundant, 2, presets::sparse_loco_options>>;
using forward_redundant = tied<with<stage::recovery::redundant_forward, 2>>;
using three_forward_redundant = tied<with<stage::recovery::redundant_forward, 3>>;
struct templates_of_three : presets::diloco_options {
  static auto recovery() { return support::three_block_templates(); }
};
using templates = tied<templates_of_three>;
struct three_neighbours : presets::diloco_options {
  static auto recovery() { return stage::recovery::neighbour_init{}; }
};
struct regions : presets::ravnest_options {
  regions() { clusters.clear(); }
};
struct hubs : tied<presets::async_local_sgd_options> {
  hubs() { record_samples = 48; }
};
struct mirrors : tied<presets::gaia_asp_options> {
  mirrors() { record_samples = 48; }
};
struct streamed : diloco {
  using pipeline = parallel::local_async_pipeline<stage::recovery::regroup>;
};
/// Rounds of two steps.
template <class Options>
struct rounds_of_two : Options {
  static constexpr bool has_own_rounds = true;
  rounds_of_two() { this->local_steps = 2; }
};

elastic_world_options pipelines(std::uint32_t hosts) {
  auto o = support::two_pipelines();
  o.hosts = hosts;
  o.layers = 6;
  o.tie = true;
  return o;
}

template <class Options>
void comes_to_two_whole_models(const elastic_world_options& o) {
  tables = {};
  local_world<Options> w{o};
  w.boot();
  w.run();
  CHECK(support::errors_of(w, o.hosts).empty());
  REQUIRE(w.finished() == o.hosts);
  const parameters is = support::holders_agree(w, o.hosts);
  const auto& replicas = w.at(0).layouts.at(o.steps).replicas;
  REQUIRE(replicas.size() == 2);
  CHECK(support::off(is, support::diloco_of_two_models(o, replicas[0].micro_batches, replicas[1].micro_batches), o.layers) <
        1e-4);
  CHECK(tables.equal());
}

/// Two whole models by hand of which one is missing in the first round are as far from both: the tokens are random ones.
template <class Options>
void kills_at_calls(std::uint64_t every) {
  support::goes_on_whoever_is_killed<Options>(every, 0.05, support::two_pipelines(), 3 * support::founded);
}

}  // namespace

TEMPLATE_TEST_CASE("tied local pipelines: one replica makes the steps of the whole model", "[parallel][elastic][fast]",
                   rounds_of_two<diloco>, rounds_of_two<three_stages>, rounds_of_two<three_redundant>,
                   rounds_of_two<three_forward_redundant>) {
  auto o = pipelines(std::is_base_of_v<diloco, TestType> ? 2 : 3);
  o.steps = 8;
  o.clip_norm = GENERATE(0.0F, 0.3F);
  tables = {};
  local_world<TestType> w{o};
  w.boot();
  w.run();
  CHECK(support::errors_of(w, o.hosts).empty());
  REQUIRE(w.finished() == o.hosts);
  auto gpt = support::small_gpt(o.layers);
  gpt.tie = true;
  const support::pipeline_case c{.ranks = 1,
                                 .micro_batches = o.micro_batches,
                                 .sequences = o.micro_batches,
                                 .steps = o.steps,
                                 .clip_norm = o.clip_norm};
  const auto whole = support::train_whole(gpt, c, [] { return presets::make(presets::diloco_options{.local_steps = 2}); });
  CHECK(support::off(support::holders_agree(w, o.hosts), whole.parameters, o.layers) < 3e-5);  // rounding
  for (const auto& [step, loss] : w.at(0).losses) CHECK(loss == Approx(whole.losses.at(step - 1)).epsilon(1e-5));
  CHECK(tables.equal());
  CHECK(tables.shared() == o.steps);
}

TEST_CASE("tied local pipelines: two of them make DiLoCo of two whole models", "[parallel][elastic][fast]") {
  comes_to_two_whole_models<diloco>(pipelines(4));
  CHECK(tables.shared() == 18);
  comes_to_two_whole_models<three_stages>(pipelines(6));
  CHECK(tables.shared() == 18);
}
TEST_CASE("tied local pipelines: and where they are cut apart", "[parallel][elastic][fast]") {
  comes_to_two_whole_models<redundant>(pipelines(4));
  comes_to_two_whole_models<three_redundant>(pipelines(6));
  comes_to_two_whole_models<forward_redundant>(pipelines(4));
  auto o = pipelines(5);
  o.micro_batches = 10;
  comes_to_two_whole_models<templates>(o);
}

TEMPLATE_TEST_CASE("tied local pipelines: what a codec leaves out does not part the ends", "[parallel][elastic][fast]",
                   sparse, eight_bits, sparse_redundant) {
  tables = {};
  const auto o = pipelines(4);
  const parameters coded = support::undisturbed<TestType>(o);
  CHECK(tables.equal());
  CHECK(support::off(coded, support::undisturbed<diloco>(o), o.layers) > 1e-3);
}

TEMPLATE_TEST_CASE("tied local pipelines: all policies whose blocks can be rows keep one table",
                   "[parallel][elastic][fast]", tied<presets::open_diloco_options>, tied<presets::muloco_options>,
                   tied<presets::local_sgd_options>, tied<regions>, tied<presets::edit_options>,
                   tied<presets::eager_diloco_options>, tied<presets::noloco_options>, tied<presets::fedavg_options>) {
  tables = {};
  const auto o = pipelines(4);
  support::undisturbed<TestType>(o);
  CHECK(tables.equal());
  CHECK(tables.shared() == 18);
}

TEMPLATE_TEST_CASE("tied local pipelines: the run goes on, whoever is killed at whichever network call",
                   "[parallel][elastic][fast]", diloco, sparse, eight_bits, redundant, forward_redundant) {
  kills_at_calls<TestType>(97);
}
TEMPLATE_TEST_CASE("tied local pipelines: whoever is killed, at network calls all over the run", "[parallel][elastic]",
                   diloco, sparse, redundant, forward_redundant) {
  kills_at_calls<TestType>(23);
}
TEMPLATE_TEST_CASE("tied local pipelines: whoever is killed, at every single call",
                   "[parallel][elastic][local_pipeline][slow][every_call]", diloco, redundant, forward_redundant) {
  kills_at_calls<TestType>(1);
}

TEMPLATE_TEST_CASE("tied local pipelines: redundant ones that lose a peer give up no step", "[parallel][elastic][fast]",
                   three_redundant, three_forward_redundant) {
  auto o = pipelines(3);
  const parameters quiet = support::undisturbed<TestType>(o);
  for (o.victim = 0; o.victim < o.hosts; ++o.victim) {
    for (o.dies_at = 3 * support::founded + o.victim;; o.dies_at += 61) {
      INFO("host " << o.victim << " is killed at call " << o.dies_at);
      tables = {};
      local_world<TestType> w{o};
      w.wanted = o.hosts - 1;
      w.boot();
      w.run();
      if (w.at(o.victim).calls <= o.dies_at) break;  // it has outlived the run
      CHECK(support::errors_of(w, o.hosts).empty());
      CHECK(w.finished() >= o.hosts - 1);
      for (std::uint32_t h = 0; h < o.hosts; ++h) CHECK(w.at(h).resumed == 0);  // given up
      CHECK(support::off(support::holders_agree(w, o.hosts), quiet, o.layers) < 1e-3);
      CHECK(tables.equal());
    }
  }
}

TEMPLATE_TEST_CASE("tied local pipelines: a peer may come in every step", "[parallel][elastic][fast]", diloco, sparse,
                   redundant, forward_redundant) {
  tables = {};
  support::newcomer_in_each_step<local_world<TestType>>(8, 15, [](auto& w, const auto& o) {
    support::make_two_pipelines(w, o);
    CHECK(tables.equal());
    tables = {};
  });
}

TEMPLATE_TEST_CASE("tied local pipelines: checkpoints go on with the same bits", "[parallel][elastic][fast]", diloco,
                   sparse, redundant, forward_redundant) {
  support::goes_on_from_checkpoints<TestType>();
}
TEST_CASE("tied local pipelines: so do those of three stages, of which one has no table", "[parallel][elastic][fast]") {
  const auto o = pipelines(3);
  const parameters quiet = support::undisturbed<three_stages>(o);
  for (const std::uint64_t step : {3U, 5U}) {
    INFO("all are stopped after step " << step);
    support::local_checkpoints saved{.after = step};
    local_world<three_stages> w{o, &saved};
    support::stop_all_once_saved(w, saved, o.hosts);
    CHECK(support::errors_of(w, o.hosts).empty());
    REQUIRE(w.finished() == o.hosts);
    CHECK(support::holders_agree(w, o.hosts) == quiet);
  }
}

TEST_CASE("tied local pipelines: a spare peer takes a lost end's place", "[parallel][elastic][fast]") {
  const auto o = support::two_pipelines();
  tables = {};
  support::spare_peers_take_over<diloco>(o, 400, 37, [&](const parameters& all, const parameters& quiet) {
    CHECK(support::off(all, quiet, o.layers) < 0.4);  // with other moments
    CHECK(tables.equal());                            // the ends have got theirs from different replicas
    tables = {};
  });
}

TEST_CASE("tied local pipelines: an end that nobody has any more is had again from what is saved",
          "[parallel][elastic][fast]") {
  support::lost_stages_come_back<diloco>(31, 0, support::founded + 30);  // after the first round, which is not saved before
}

TEST_CASE("tied local pipelines: a stage in the middle is made up from its neighbours, whose table stays",
          "[parallel][elastic][fast]") {
  std::string said;
  elastic_world_options o = support::three_stages_lose_one(GENERATE(0U, 1U, 2U, 3U), said);
  o.steps = 9;
  support::any_elastic_world* all = nullptr;
  support::dies_before_step(o, all, 4);
  tables = {};
  local_world<tied<three_neighbours>> w{o};
  all = &w;
  w.wanted = 3;
  w.boot();
  w.run(std::chrono::minutes{2});
  support::check_made_up(w, o, said);  // without an end: the other has the table, but nobody the stage's blocks
  support::holders_agree(w, o.hosts);
}

TEST_CASE("tied local pipelines: what would make two tables of one is refused", "[parallel][elastic][fast]") {
  const auto what_is_said = [](auto&& world) {
    world.boot();
    world.run(std::chrono::minutes{1});
    return world.at(0).error;
  };
  const auto rows = Catch::Matchers::Contains("no rows of single blocks");
  CHECK_THAT(what_is_said(local_world<hubs>{pipelines(2)}), rows);
  CHECK_THAT(what_is_said(local_world<mirrors>{pipelines(2)}), rows);
  CHECK_THAT(what_is_said(local_world<streamed>{pipelines(2)}), Catch::Matchers::Contains("be at different steps"));
}
