// SPDX-License-Identifier: Apache-2.0
// Presets of pipelines on peers that are taken away, against the model trained unsplit and what their papers say of the
// work (tests/golden/traces/make_traces_elastic.py).

#include <causeway/optim/adamw.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/plan/liveput.hpp>
#include <causeway/plan/varuna_search.hpp>
#include <causeway/presets/elastic_pipelines.hpp>
#include <causeway/presets/swarms.hpp>
#include <causeway/train/member.hpp>
#include <causeway/train/swarm_group.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "parallel/elastic/elastic_world.hpp"
#include "support/catch.hpp"
#include "support/traced_pipelines.hpp"

using namespace causeway;

namespace {

/// A run of a trace, in which the victim dies in the middle; or, where the trace says after which step, all who compute
/// the blocks that are lost then. The first of them is started again `back_after` that.
template <class Options, class Change>
class elastic_replay {
 public:
  elastic_replay(const support::trace& t, support::elastic_world_options o, Change change)
      : trace_{t}, options_{watched(std::move(o))}, change_{std::move(change)}, world_{options_, maker()} {
    world_.wanted = options_.hosts - 1;  // all but one that dies
    world_.boot();
    world_.run();
  }
  support::any_elastic_world& world() { return world_; }
  /// Hosts that computed what is lost and died after the step that the trace says.
  [[nodiscard]] const std::set<std::uint32_t>& lost() const { return lost_; }

  /// The largest relative error of what anybody computed or kept up to date, in any step; of all hosts, whether every block
  /// was there in every step.
  [[nodiscard]] double worst() {
    double worst = 0;
    for (std::uint64_t step = 1; step <= options_.steps; ++step) {
      std::size_t seen = 0;
      for (std::uint32_t h = 0; h < options_.hosts; ++h) {
        auto& me = world_.at(h);
        const auto layout = me.layouts.find(step);
        if (layout == me.layouts.end()) continue;
        const stage::assignment* const assignment = layout->second.find(me.id);
        if (assignment == nullptr) continue;
        const auto& have = step == options_.steps && me.finished ? me.parameters : after_[{h, step}];
        for (const auto& range : assignment->held()) {
          for (std::int64_t b = range.first; b < range.last; ++b, ++seen) {
            for (const char* const part : {".matrix", ".vector"}) {
              const std::string name = "block" + std::to_string(b) + part;
              if (!trace_.has(name + " " + std::to_string(step))) continue;
              const auto& want = trace_.numbers(name + " " + std::to_string(step));
              const auto found = have.find(name);
              if (found == have.end() && (h == options_.victim || lost_.contains(h)))
                continue;  // it died before it could say
              worst = std::max(worst, found == have.end() ? 1.0 : support::relative_error(want, found->second.data()));
            }
          }
        }
      }
      if (seen < static_cast<std::size_t>(options_.layers)) return 1;
    }
    return worst;
  }

 private:
  // A step begins with what the one before left.
  support::elastic_world_options watched(support::elastic_world_options o) {
    o.layers = support::numbers_of(trace_)->blocks();
    o.steps = static_cast<std::uint64_t>(trace_.numbers("steps")[0]);
    o.micro_batches = static_cast<std::int64_t>(trace_.numbers("micro_batches")[0]);
    if (trace_.has("lost_after")) {  // between two steps, where it matters which
      o.before_step = [this, after = static_cast<std::uint64_t>(trace_.numbers("lost_after")[0])](std::uint32_t host,
                                                                                                  std::uint64_t step) {
        const stage::assignment* const last = world_.last_assignment(host);
        const bool goes = step == after && last != nullptr && last->computes == lost_blocks();
        if (goes && lost_.insert(host).second) kill(host);
        // All wait for who comes back.
        if (step == after + 2) world_.world().running()->sleep(2 * options_.back_after);
      };
    }
    o.spoils = [this](std::uint32_t host, std::uint64_t step, parameter_store& store) {
      support::detail::collect(store, after_[{host, step}]);
    };
    return o;
  }
  [[nodiscard]] nn::block_range lost_blocks() const {
    const std::vector<float> lost = trace_.has("lost") ? trace_.numbers("lost") : std::vector<float>{2, 4};
    return {static_cast<std::int64_t>(lost[0]), static_cast<std::int64_t>(lost[1])};
  }
  void kill(std::uint32_t host) {
    world_.world().kill(host);
    if (lost_.size() > 1 || options_.back_after == duration{0}) return;
    world_.world().after(options_.back_after, [this, host] { world_.world().restart(host); });
  }
  support::any_elastic_world::peer_maker maker() {
    return [this](const support::elastic_world_options&, const std::shared_ptr<pipeline_group>& group, environment env,
                  const parallel::elastic_pipeline_options& e) -> std::unique_ptr<support::elastic_peer> {
      Options options;
      options.micro_batches = e.micro_batches;
      change_(options);
      env.group = group;
      trainer_options to;
      to.learning_rate = optim::constant{trace_.learning_rate()};
      to.clip_norm = 0;
      support::linear_stages model{support::numbers_of(trace_), nn::model_part{{0, 1}}};
      const optim::adamw_options inner{.beta1 = trace_.numbers("betas")[0],
                                       .beta2 = trace_.numbers("betas")[1],
                                       .epsilon = trace_.numbers("epsilon")[0],
                                       .weight_decay = 0};
      auto trainer = make_trainer(std::move(model), std::move(env), to, comm::every_step<>{}, optim::adamw{inner},
                                  fault::quorum{}, presets::make(options));
      return std::make_unique<support::elastic_peer_of<decltype(trainer)>>(std::move(trainer));
    };
  }

  const support::trace& trace_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::map<std::string, std::vector<float>>> after_;
  std::set<std::uint32_t> lost_;
  support::elastic_world_options options_;
  Change change_;
  support::any_elastic_world world_;
};

/// Five hosts, of which any may be lost, train as if none had been.
template <class Options, class Change>
void check_as_unsplit(const support::trace& t, Change change) {
  const std::uint32_t victim = GENERATE(1U, 4U);
  elastic_replay<Options, Change> run{t, {.hosts = 5, .victim = victim, .dies_at = 200}, change};
  CAPTURE(victim, run.world().at(victim).layouts.size());
  CHECK(support::errors_of(run.world(), 5).empty());
  CHECK(run.world().finished() == 4);
  CHECK(!run.world().at(victim).layouts.empty());  // it did take part
  CHECK(!run.world().at(victim).finished);
  CHECK(run.worst() < 1e-5);
}

}  // namespace

TEST_CASE("traces: Bamboo", "[presets][trace][fast]") {
  const support::trace t{"bamboo"};
  const auto change = [](auto& o) { o.stages = 3; };
  check_as_unsplit<presets::bamboo_options>(t, change);
  CHECK(support::orders(stage::one_f_one_b::make(3, 6).value()) == support::orders(t));
}

TEST_CASE("traces: Bamboo's redundancy", "[presets][trace][fast]") {
  const support::trace t{"bamboo"};
  stage::cluster_snapshot g;
  g.layers = 6;
  g.micro_batches = 6;
  for (std::uint64_t id = 1; id <= 3; ++id) g.peers.push_back({.id = id, .holds = {{0, 6}}});
  stage::recovery::redundant_forward recovery{3};
  const auto layout = recovery.arrange(g);
  REQUIRE(layout);
  REQUIRE(layout->replicas.size() == 1);
  const auto& assignments = layout->replicas[0].assignments;
  REQUIRE(assignments.size() == 3);
  for (std::size_t r = 0; r < 3; ++r) {
    const auto next = static_cast<std::size_t>(t.numbers("successor")[r]);
    for (std::size_t other = 0; other < 3; ++other) {
      for (std::int64_t b = assignments[other].computes.first; b < assignments[other].computes.last; ++b) {
        CHECK(assignments[r].holds(b) == (other == r || other == next));
      }
    }
  }
}

TEST_CASE("traces: Oobleck", "[presets][trace][fast]") {
  const support::trace t{"oobleck"};
  check_as_unsplit<presets::oobleck_options>(t, [](auto& o) {
    o.most_peers = 5;
    o.kind.memory = 3;  // blocks of one: a copy of the model takes two peers
  });
}

TEST_CASE("traces: Oobleck's plan", "[presets][trace][fast]") {
  const support::trace t{"oobleck"};
  plan::model_cost model;
  for (const float seconds : t.numbers("blocks")) model.blocks.push_back({.seconds = seconds, .memory = 1});
  const auto set = plan::make_templates(model, {.memory = 6}, 8, 1, 12);
  REQUIRE(set);
  std::size_t count = 0;
  for (; t.has("template " + std::to_string(count)); ++count) {
    const auto& want = t.numbers("template " + std::to_string(count));
    REQUIRE(count < set->templates.size());
    CHECK(static_cast<float>(set->templates[count].peers) == want[0]);
    CHECK(static_cast<float>(set->templates[count].slowest) == want[1]);
  }
  CHECK(set->templates.size() == count);
  for (int c = 0; t.has("split " + std::to_string(c)); ++c) {
    const auto& want = t.numbers("split " + std::to_string(c));
    const auto middle = want.begin() + 1 + static_cast<std::ptrdiff_t>(want.size() / 2);
    const auto split = plan::split_batch(*set, {want.begin() + 1, middle}, static_cast<std::size_t>(want[0]));
    CHECK((split.micro_batches == std::vector<std::size_t>{middle, want.end()}));
  }
}

TEST_CASE("traces: ReCycle", "[presets][trace][fast]") {
  const support::trace t{"recycle"};
  check_as_unsplit<presets::recycle_options>(t, [](auto& o) { o.stages = 2; });
  // Three pipelines of three stages, and nobody where peer 6 was: places among those who are assigned, row after row.
  stage::layout l;
  for (std::uint64_t r = 0; r < 3; ++r) {
    l.replicas.push_back({{{3 * r + 1, {0, 2}}, {3 * r + 2, {2, 4}}, {3 * r + 3, {4, 6}}}, 3});
  }
  l.replicas[1].assignments[2].peer = stage::nobody;
  const auto assigned = l.assigned();
  std::vector<float> routes;
  for (const auto& route : l.routes()) {
    for (const auto place : route) routes.push_back(static_cast<float>((assigned[place] - 1) / 3));
  }
  CHECK(routes == t.numbers("routes"));
}

TEST_CASE("traces: Parcae", "[presets][trace][fast]") {
  check_as_unsplit<presets::parcae_options>(support::trace{"parcae"}, [](auto& o) {
    o.plan.device_memory = 3;
    o.plan.interval = 2;
  });
}

TEST_CASE("traces: Parcae's peer that is told to go", "[presets][trace][fast]") {
  const support::trace t{"parcae"};
  const std::uint32_t leaver = GENERATE(0U, 3U);
  const auto plan = [](auto& o) {
    o.plan.device_memory = 3;
    o.plan.interval = 2;
  };
  elastic_replay<presets::parcae_options, decltype(plan)> run{t, {.hosts = 5, .told_to_go = {{leaver, 3}}}, plan};
  CAPTURE(leaver);
  CHECK(support::errors_of(run.world(), 5).empty());
  CHECK(run.world().finished() == 4);
  CHECK(run.world().at(leaver).left);
  CHECK(run.worst() < 1e-5);
}

TEST_CASE("traces: Parcae's plan", "[presets][trace][fast]") {
  const support::trace t{"parcae"};
  std::map<std::pair<std::size_t, std::size_t>, double> rates;
  for (int c = 0; t.has("rate " + std::to_string(c)); ++c) {
    const auto& r = t.numbers("rate " + std::to_string(c));
    rates[{static_cast<std::size_t>(r[0]), static_cast<std::size_t>(r[1])}] = r[2];
  }
  const auto rate = [&](const plan::pipeline_shape& s) { return rates.at({s.replicas, s.stages}); };
  const auto &now = t.numbers("now"), &m = t.numbers("migrations"), &forecast = t.numbers("available");
  const std::vector<std::size_t> available(forecast.begin(), forecast.end());
  const auto plan =
      plan::plan_liveput({static_cast<std::size_t>(now[0]), static_cast<std::size_t>(now[1])},
                         static_cast<std::size_t>(now[2]), available, m[0], static_cast<std::size_t>(m[1]),
                         {.intra_stage = m[2], .inter_stage = m[3], .pipeline = m[4]}, rate, {.samples = 4000});
  std::vector<float> shapes;
  for (const auto& s : plan.shapes) {
    shapes.push_back(static_cast<float>(s.replicas));
    shapes.push_back(static_cast<float>(s.stages));
  }
  CHECK(shapes == t.numbers("plan"));
  CHECK(plan.samples == Approx(t.numbers("samples")[0]).epsilon(2e-3));  // the losses are drawn
}

TEST_CASE("traces: Varuna's morphing", "[presets][trace][fast]") {
  check_as_unsplit<presets::varuna_morphing_options>(support::trace{"varuna_morphing"}, [](auto& o) {
    o.search.calibration.sizes = {1};
    o.search.calibration.points.assign(6, {{1}, {2}, 0, 1, 0});
    o.search.device_memory = 3;
  });
}

TEST_CASE("traces: the shapes of Varuna's morphing", "[presets][trace][fast]") {
  const support::trace t{"varuna_morphing"};
  plan::varuna_calibration c;
  c.sizes = {1};
  c.points.assign(6, {{1}, {2}, 0, 1, 0});
  for (int k = 0; t.has("shape " + std::to_string(k)); ++k) {
    const auto& want = t.numbers("shape " + std::to_string(k));
    const auto found =
        plan::plan_varuna(c, {.devices = static_cast<std::size_t>(want[0]), .global_batch = 6, .device_memory = 3});
    REQUIRE(found);
    CHECK(std::vector<float>{want[0], static_cast<float>(found->stages()), static_cast<float>(found->replicas),
                             static_cast<float>(found->micro_batches), static_cast<float>(found->seconds())} == want);
  }
}

namespace {

// One host has the stage that is lost; the last is spare, and makes it up.
template <class Options = presets::checkfree_options, class Change>
void check_made_up(const support::trace& t, Change change, std::uint32_t hosts = 4) {
  elastic_replay<Options, Change> run{t, {.hosts = hosts}, change};
  CHECK(support::errors_of(run.world(), hosts).empty());
  CHECK(run.world().finished() == hosts - 1);
  REQUIRE(run.lost().size() == 1);
  std::uint64_t made_up = 0;
  for (std::uint32_t h = 0; h < hosts; ++h) made_up += run.world().at(h).made_up;
  CHECK(made_up == 2);
  CHECK(run.worst() < 1e-5);
}

}  // namespace

TEST_CASE("traces: CheckFree", "[presets][trace][fast]") {
  check_made_up(support::trace{"checkfree"}, [](auto& o) { o.stages = 3; });
}

TEST_CASE("traces: CheckFree as its code has it", "[presets][trace][fast]") {
  check_made_up(support::trace{"checkfree_code"}, [](auto& o) {
    o.stages = 3;
    o.weights = stage::neighbour_weights::clipped_norms;
  });
}

TEST_CASE("traces: CheckFree+", "[presets][trace][fast]") {
  const std::string lost = GENERATE("", "_last", "_second", "_between");
  CAPTURE(lost);
  const support::trace t{"checkfree_plus" + lost};
  const auto stages = static_cast<std::int64_t>(t.numbers("stages")[0]);
  check_made_up<presets::checkfree_plus_options>(
      t, [&](auto& o) { o.stages = stages; }, static_cast<std::uint32_t>(stages) + 2);
}

// Two pipelines lose the stage between, and one of the lost peers comes back. The stage is copied from who made it up, and
// its optimizer goes on as that one's.
TEST_CASE("traces: CheckFree's made-up stage takes its rate and its count of steps along", "[presets][trace][fast]") {
  const support::trace t{"checkfree"};
  const auto stages = [](auto& o) { o.stages = 3; };
  elastic_replay<presets::checkfree_options, decltype(stages)> run{
      t, {.hosts = 7, .back_after = std::chrono::seconds{2}}, stages};
  CHECK(support::errors_of(run.world(), 7).empty());
  CHECK(run.world().finished() == 6);
  REQUIRE(run.lost().size() == 2);
  std::size_t pipelines = 0;
  for (std::uint32_t h = 0; h < 7; ++h) {
    const auto& layouts = run.world().at(h).layouts;
    if (!layouts.empty()) pipelines = std::max(pipelines, layouts.rbegin()->second.replicas.size());
  }
  CHECK(pipelines == 2);
  CHECK(run.worst() < 1e-5);
}

TEST_CASE("traces: a swarm of GWTF", "[presets][trace][fast]") {
  const support::trace t{"gwtf"};
  const auto numbers = support::numbers_of(t);
  const auto steps = static_cast<std::uint64_t>(t.numbers("steps")[0]);
  const auto micro_batches = static_cast<std::int64_t>(t.numbers("micro_batches")[0]);
  sim::world world{{.seed = 1}};
  std::vector<double> worst(4, 1);  // hosts 0 and 1 serve the first half of the model, 2 and 3 the second
  for (std::uint32_t h = 0; h < 4; ++h) (void)world.add_host();
  for (std::uint32_t h = 0; h < 4; ++h) {
    world.boot(h, [&, h](sim::process& p) {
      const std::uint32_t stage = h / 2;
      const auto mates = p.make_fabric(h + 1);
      presets::gwtf_options options;
      options.fabric = p.make_fabric(h + 1);
      options.peer = {.run = 3, .stage = stage, .stages = 2, .micro_batches = micro_batches};
      for (std::uint32_t o = 0; o < h; ++o) options.peer.dial.push_back("host-" + std::to_string(o) + ":2");
      auto policy = presets::make(options);
      member_options mo;
      mo.protocol.run = 10 + stage;
      mo.protocol.expected = 2;
      if (h % 2 == 1) mo.dial = {world.address(h - 1)};
      mo.enters_afresh = true;
      mo.called_away = [peer = policy.peer()] { return peer->called_away(); };
      environment env;
      env.clock = p.clock();
      env.group = std::make_shared<swarm_group>(member::make(mates, p.storage(), mo).value(), policy.peer());
      trainer_options to;
      to.learning_rate = optim::constant{t.learning_rate()};
      to.clip_norm = 0;
      support::linear_stages model{numbers, nn::model_part{{2 * stage, 2 * stage + 2}}};
      auto trainer = make_trainer(std::move(model), std::move(env), to, comm::every_step<>{},
                                  optim::sgd{{.momentum = t.numbers("momentum")[0]}}, fault::quorum{}, std::move(policy));
      if (!trainer.start()) throw std::runtime_error{"start"};
      double error = 0;
      for (std::uint64_t s = 0; s < steps; ++s) {
        const support::token_batch b{0, s, micro_batches};
        if (const auto report = trainer.step(b.view()); !report) throw std::runtime_error{report.error().text()};
        error = std::max(error, support::distance(t, trainer.model().parameters(), trainer.context().step()));
      }
      worst[h] = error;
      p.sleep(std::chrono::hours{1});
    });
  }
  world.run_until(time_point{std::chrono::minutes{5}});
  for (const double error : worst) CHECK(error < 1e-5);
}
