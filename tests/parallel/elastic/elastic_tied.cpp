// SPDX-License-Identifier: Apache-2.0
// Elastic pipelines of a model whose output layer is the token table, in whole runs: whoever is killed, and whenever, the
// run comes to the unsplit model, and all who hold the table at either end hold the same bits of it and its moments.
#include <causeway/parallel/elastic_pipeline.hpp>

#include <causeway/compress/block_int8.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/stage/recovery_neighbour.hpp>
#include <causeway/stage/recovery_redundant.hpp>
#include <causeway/stage/recovery_redundant_forward.hpp>
#include <causeway/stage/recovery_reroute.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallel/elastic/elastic_cases.hpp"
#include "parallel/elastic/elastic_world.hpp"
#include "support/catch.hpp"

namespace causeway {
namespace {

using support::elastic_world_options;
using support::errors_of;
using support::founded;

nn::gpt_options tied_gpt(std::int64_t layers) {
  auto o = support::small_gpt(layers);
  o.tie = true;
  return o;
}

// The table and its moments as the peers of each state have them.
class table_notes {
 public:
  void note(std::uint64_t state, const std::vector<float>& table, bool first, bool last) {
    if (table.empty()) return;
    auto& of = states_[state];
    of.bits.insert(table);
    of.first = of.first || (first && !last);
    of.last = of.last || (last && !first);
  }
  // States with a peer that holds the table as embedding only, and one that holds it as output layer only.
  [[nodiscard]] std::size_t shared() const {
    std::size_t n = 0;
    for (const auto& [state, of] : states_) n += of.first && of.last ? 1 : 0;
    return n;
  }
  [[nodiscard]] bool equal() const {
    for (const auto& [state, of] : states_) {
      if (of.bits.size() != 1) return false;
    }
    return true;
  }

 private:
  struct one_state {
    std::set<std::vector<float>> bits;
    bool first = false, last = false;
  };
  std::map<std::uint64_t, one_state> states_;
};

template <class Trainer>
class noting_peer final : public support::elastic_peer {
 public:
  noting_peer(Trainer trainer, std::shared_ptr<pipeline_group> group, std::shared_ptr<table_notes> notes)
      : trainer_{std::move(trainer)}, group_{std::move(group)}, notes_{std::move(notes)} {}
  result<void> start() override { return trainer_.start(); }
  std::uint64_t steps() override { return trainer_.context().step(); }
  result<step_report> step(const batch& b) override {
    const std::uint64_t step = steps();
    const auto now = trainer_.context().parameters();
    const std::vector<float> before{now.begin(), now.end()};
    CAUSEWAY_ASSIGN(step_report report, trainer_.step(b));
    const auto then = trainer_.context().parameters();
    takes_part_ = report.step == step + 1 && !std::equal(before.begin(), before.end(), then.begin(), then.end());
    if (takes_part_) note();
    if (!takes_part_ && report.step == step + 1) report.step = UINT64_MAX;  // others have; what is here is older
    return report;
  }
  result<double> evaluate(const batch& b) override { return trainer_.evaluate(b); }
  const stage::layout& layout() override { return takes_part_ ? trainer_.parallel().layout() : nowhere_; }
  parameter_store& parameters() override { return trainer_.model().parameters(); }
  void count(support::elastic_result& out) override {
    out.received = trainer_.parallel().received_blocks();
    out.made_up = trainer_.parallel().interpolated_blocks();
    out.resumed = trainer_.parallel().resumed_attempts();
  }

 private:
  void note() {
    const stage::assignment* assignment = layout().find(group_->identity());
    if (assignment == nullptr) return;
    auto& model = trainer_.model();
    std::vector<float> all;
    const auto add = [&](std::span<float> flat) {
      const auto table = parallel::table_in(model, flat);
      all.insert(all.end(), table.begin(), table.end());
    };
    add(trainer_.context().parameters());
    for (const std::span<float> moment : trainer_.context().inner().moments()) add(moment);
    notes_->note(group_->record().state, all, assignment->holds(0), assignment->holds(model.blocks() - 1));
  }

  Trainer trainer_;
  std::shared_ptr<pipeline_group> group_;
  std::shared_ptr<table_notes> notes_;
  stage::layout nowhere_;
  bool takes_part_ = false;  // in the last step that it made or heard of
};

/// What makes a policy, since policies cannot be copied.
comm::every_step<> add_up() { return comm::every_step<>{}; }

class tied_world : public support::any_elastic_world {
 public:
  template <class Recovery, class Comm = comm::every_step<> (*)()>
  tied_world(const elastic_world_options& o, const Recovery& recovery, const Comm& comm = add_up)
      : tied_world{o, recovery, comm, std::make_shared<table_notes>()} {}

  [[nodiscard]] const table_notes& tables() const { return *notes_; }

 private:
  template <class Recovery, class Comm>
  tied_world(const elastic_world_options& options, const Recovery& recovery, const Comm& comm,
             const std::shared_ptr<table_notes>& notes)
      : any_elastic_world{options,
                          [recovery, comm, notes](const elastic_world_options& o,
                                                  const std::shared_ptr<pipeline_group>& group, environment env,
                                                  parallel::elastic_pipeline_options p) {
                            return peer(o, group, std::move(env), std::move(p), recovery, comm, notes);
                          }},
        notes_{notes} {}

  template <class Recovery, class Comm>
  static std::unique_ptr<support::elastic_peer> peer(const elastic_world_options& o,
                                                     const std::shared_ptr<pipeline_group>& group, environment env,
                                                     parallel::elastic_pipeline_options p, const Recovery& recovery,
                                                     const Comm& comm, const std::shared_ptr<table_notes>& notes) {
    env.group = group;
    trainer_options to;
    to.learning_rate = optim::constant{0.01F};
    to.clip_norm = o.clip_norm;
    auto model = nn::gpt::create(tied_gpt(o.layers), kernels::cpu_backend{1}, nn::model_part{{0, 1}});
    auto trainer = make_trainer(std::move(*model), std::move(env), to, comm(), optim::adamw{}, fault::quorum{},
                                parallel::elastic_pipeline<Recovery>{group, std::move(p), recovery});
    return std::make_unique<noting_peer<decltype(trainer)>>(std::move(trainer), group, notes);
  }

  std::shared_ptr<table_notes> notes_;
};

support::trained_model unsplit(const elastic_world_options& o) {
  const support::pipeline_case c{.ranks = 1,
                                 .micro_batches = o.micro_batches,
                                 .sequences = o.micro_batches,
                                 .steps = o.steps,
                                 .clip_norm = o.clip_norm};
  return support::train_whole(tied_gpt(o.layers), c, [] { return comm::every_step<>{}; });
}

// Ran to the end: so many of the hosts, with what the unsplit model has.
void check_result(tied_world& w, const elastic_world_options& o, std::uint32_t finished,
                  const support::trained_model& whole) {
  CHECK(errors_of(w, o.hosts).empty());
  CHECK(w.finished() >= finished);
  CHECK(w.distance(whole) < 5e-5);
  CHECK(w.tables().equal());
}

struct undisturbed_run {
  support::trained_model whole;  // unsplit
  support::trained_model split;
  std::uint64_t calls = 0;  // of the victim
};

template <class Recovery>
undisturbed_run undisturbed(elastic_world_options o, const Recovery& recovery, bool everybody_has_both) {
  o.dies_at = UINT64_MAX;
  undisturbed_run all{unsplit(o), {}, 0};
  tied_world w{o, recovery};
  w.boot();
  w.run();
  all.calls = w.at(o.victim).calls;
  check_result(w, o, o.hosts, all.whole);
  CHECK(w.tables().shared() == (everybody_has_both ? 0 : o.steps));
  for (std::uint32_t h = 0; h < o.hosts; ++h) {
    for (const auto& [name, values] : w.at(h).parameters) all.split.parameters[name] = values;
    for (const auto& [step, loss] : w.at(h).losses) {
      all.split.losses.resize(o.steps);
      all.split.losses[step - 1] = loss;
    }
  }
  return all;
}

// Kills the victim at `kills` network calls spread over the run, from the `from`th on.
template <class Recovery>
void kill_through(elastic_world_options o, const Recovery& recovery, std::uint64_t from, std::uint64_t kills,
                  bool everybody_has_both = false) {
  const auto quiet = undisturbed(o, recovery, everybody_has_both);
  for (std::uint64_t k = 0; k < kills; ++k) {
    o.dies_at = from + k * (quiet.calls - from) / kills;
    CAPTURE(o.victim, o.dies_at);
    tied_world w{o, recovery};
    w.wanted = o.hosts - 1;
    w.boot();
    w.run();
    check_result(w, o, o.hosts - 1, quiet.whole);
  }
}

}  // namespace

TEST_CASE("tied tables: a peer killed at any network call costs nothing that was committed", "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.victim = GENERATE(0U, 3U);
  kill_through(o, stage::recovery::regroup{2}, founded, 60);
}

TEST_CASE("tied tables: redundant pipelines keep them at both ends, and on one peer", "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.hosts = GENERATE(3U, 4U);
  o.layers = 6;
  o.victim = GENERATE(0U, 2U);
  kill_through(o, stage::recovery::redundant{o.hosts == 3 ? 3 : 2}, founded, 8, o.hosts == 4);
}

// Where peers have several stages, or pipelines are cut in different ways.
template <class Recovery>
void exchanges_a_table(elastic_world_options o, const Recovery& recovery) {
  const auto dense = [] { return comm::rounds{axis::every{1}, axis::gradient{}, axis::all_reduce<>{}}; };
  const auto make = [&](const elastic_world_options& with_this) { return tied_world{with_this, recovery, dense}; };
  support::worlds_come_to(unsplit(o), o, make, founded, 6);
}

TEST_CASE("tied tables: a policy exchanges the gradient of redundant pipelines", "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.hosts = GENERATE(3U, 4U);
  o.layers = 6;
  o.victim = GENERATE(0U, 2U);
  exchanges_a_table(o, stage::recovery::redundant{o.hosts == 3 ? 3 : 2});
  exchanges_a_table(o, stage::recovery::redundant_forward{o.hosts == 3 ? 3 : 2});
}

elastic_world_options five_peers() {
  elastic_world_options o;
  o.hosts = 5;
  o.layers = 6;
  o.micro_batches = 10;
  return o;
}

TEST_CASE("tied tables: a policy exchanges the gradient of pipelines from templates", "[parallel][elastic][fast]") {
  elastic_world_options o = five_peers();
  o.victim = GENERATE(1U, 4U);
  exchanges_a_table(o, support::three_block_templates());
}

TEST_CASE("tied tables: pipelines from templates", "[parallel][elastic][fast]") {
  elastic_world_options o = five_peers();
  o.victim = GENERATE(1U, 4U);
  kill_through(o, support::three_block_templates(), founded, 6);
}

TEST_CASE("tied tables: morphing and proactive pipelines", "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.hosts = 5;
  o.victim = GENERATE(0U, 4U);
  kill_through(o, support::two_block_morph(), founded, 5);
  kill_through(o, support::two_block_proactive(2), founded, 5);
}

TEST_CASE("tied tables: rerouting pipelines", "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.hosts = 6;
  o.micro_batches = 6;
  o.victim = GENERATE(0U, 3U);
  kill_through(o, stage::recovery::reroute{2}, 2 * founded, 6);
}

// With two stages every peer keeps both ends: what its successor's stage has given stays apart.
TEST_CASE("tied tables: a step that is gone on with leaves the bits of the undisturbed run", "[parallel][elastic][fast]") {
  elastic_world_options o;
  const std::int64_t stages = GENERATE(2, 3);
  o.hosts = GENERATE(3U, 4U);
  o.layers = 6;
  o.micro_batches = 6;
  o.clip_norm = 0;  // a norm is added up over peers, and rounded with their number
  o.victim = GENERATE(0U, 1U);
  o.steps = 5;
  const bool one_pipeline = o.hosts < 2 * stages;
  const stage::recovery::redundant_forward recovery{stages};
  const auto quiet = undisturbed(o, recovery, stages == 2);
  std::uint64_t resumed = 0;
  for (std::uint64_t n = founded + 20; n < quiet.calls; n += 13) {
    o.dies_at = n;
    CAPTURE(stages, o.hosts, o.victim, n);
    tied_world w{o, recovery};
    w.wanted = o.hosts - 1;
    w.boot();
    w.run();
    check_result(w, o, o.hosts - 1, quiet.whole);
    if (one_pipeline) CHECK(w.distance(quiet.split) == 0);
    for (std::uint32_t h = 0; h < o.hosts; ++h) resumed += w.at(h).resumed;
  }
  CHECK(resumed > 0);
}

TEST_CASE("tied tables: a stage in the middle is made up from its neighbours, whose table stays",
          "[parallel][elastic][fast]") {
  std::string said;
  const elastic_world_options o = support::three_stages_lose_one(GENERATE(0U, 1U, 2U, 3U), said);
  tied_world w{o, stage::recovery::neighbour_init{}};
  w.wanted = 3;
  w.boot();
  w.run(std::chrono::minutes{2});
  support::check_made_up(w, o, said);  // without an end: the other has the table, but nobody the stage's blocks
  CHECK(w.tables().equal());
  if (w.finished() == 3) CHECK(w.tables().shared() == o.steps);
}

TEST_CASE("tied tables: a run that loses an end goes back to what is saved", "[parallel][elastic][fast]") {
  elastic_world_options o = support::saved_every_other_step();
  o.evaluations = 1;
  o.victim = GENERATE(0U, 1U, 2U, 3U);
  o.dies_at = GENERATE(200U, 261U);
  tied_world w{o, stage::recovery::regroup{3}};
  w.wanted = 3;
  w.boot();
  w.run();
  const auto whole = unsplit(o);
  check_result(w, o, 3, whole);
  support::check_went_back(w, o);
  for (std::uint32_t h = 0; h < o.hosts; ++h) {
    if (w.at(h).finished) CHECK(w.at(h).evaluated.at(o.steps) == Approx(whole.evaluated).epsilon(1e-5));
  }
}

TEST_CASE("tied tables: a run whose peers are all stopped goes on from what is saved", "[parallel][elastic][fast]") {
  support::stop_all_and_start_again(
      [](const elastic_world_options& o) {
        return tied_world{o, stage::recovery::regroup{2}};
      },
      [](auto& w, const elastic_world_options& o) { check_result(w, o, o.hosts, unsplit(o)); });
}

TEST_CASE("tied tables: a policy that exchanges gradients gives both ends the same bits of the table, whoever is killed",
          "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.dies_at = UINT64_MAX;
  const stage::recovery::regroup two{2};
  const auto whole = unsplit(o);
  const auto dense = [] { return comm::rounds{axis::every{1}, axis::gradient{}, axis::all_reduce<>{}}; };
  const auto coded = [] { return comm::every_step<compress::block_int8>{}; };
  const auto factors = [] { return presets::make(presets::power_sgd_options{}); };
  tied_world quiet{o, two, dense}, eight_bits{o, two, coded}, low_rank{o, two, factors};
  for (tied_world* w : {&quiet, &eight_bits, &low_rank}) {
    w->boot();
    w->run();
    CHECK(errors_of(*w, o.hosts).empty());
    REQUIRE(w->finished() == o.hosts);
    CHECK(w->tables().equal());
    CHECK(w->tables().shared() == o.steps);
  }
  CHECK(quiet.distance(whole) < 5e-5);
  for (o.victim = 0; o.victim < o.hosts; ++o.victim) {
    for (o.dies_at = founded; o.dies_at < quiet.at(o.victim).calls; o.dies_at += 9) {
      CAPTURE(o.victim, o.dies_at);
      tied_world exact{o, two, dense}, lossy{o, two, coded};
      for (tied_world* w : {&exact, &lossy}) {
        w->wanted = o.hosts - 1;
        w->boot();
        w->run();
        CHECK(errors_of(*w, o.hosts).empty());
        CHECK(w->finished() >= o.hosts - 1);
        CHECK(w->tables().equal());
      }
      CHECK(exact.distance(whole) < 5e-5);
    }
  }
}

TEST_CASE("tied tables: where micro-batches take detours, a policy's means are those of the whole batch",
          "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.hosts = 6;
  o.layers = 6;
  o.micro_batches = 7;
  o.steps = 5;
  o.victim = GENERATE(0U, 1U, 2U, 3U, 4U, 5U);
  const std::int64_t stages = GENERATE(2, 3);
  const stage::recovery::reroute recovery{stages};
  const auto dense = [] { return comm::rounds{axis::every{1}, axis::gradient{}, axis::all_reduce<>{}}; };
  const auto coded = [] { return comm::every_step<compress::block_int8>{}; };
  const auto whole = unsplit(o);
  std::size_t detours = 0;
  for (o.dies_at = 240; o.dies_at < 480; o.dies_at += 40) {
    CAPTURE(o.victim, o.dies_at, stages);
    tied_world exact{o, recovery, dense}, lossy{o, recovery, coded};
    for (tied_world* w : {&exact, &lossy}) {
      w->wanted = o.hosts - 1;
      w->boot();
      w->run();
      CHECK(errors_of(*w, o.hosts).empty());
      CHECK(w->finished() >= o.hosts - 1);
      CHECK(w->tables().equal());
    }
    CHECK(exact.distance(whole) < 5e-5);
    for (const auto& [step, layout] : exact.at(o.victim == 0 ? 1 : 0).layouts) detours += layout.has_unassigned() ? 1 : 0;
  }
  CHECK(detours > 0);
}

}  // namespace causeway
