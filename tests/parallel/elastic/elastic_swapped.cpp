// SPDX-License-Identifier: Apache-2.0
// Rings in which half of the micro-batches go through the first two stages, and through the last two, the other way round,
// in whole runs: whoever is killed, and whenever.
#include <causeway/parallel/elastic_pipeline.hpp>

#include <causeway/plan/routed_schedule.hpp>
#include <causeway/stage/recovery_swapped.hpp>
#include <causeway/train/model.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallel/elastic/elastic_world.hpp"
#include "support/catch.hpp"

namespace causeway {
namespace {

using stage::recovery::swapped_neighbours;
using support::elastic_world;
using support::elastic_world_options;
using support::errors_of;
using namespace std::chrono_literals;

// Four stages of a block each.
constexpr std::uint32_t stages = 4;

elastic_world_options world_of(std::uint32_t hosts) {
  elastic_world_options o;
  o.hosts = hosts;
  o.layers = stages;
  o.joined_ends = true;
  return o;
}

// The whole model, whose micro-batches take those ways.
class swapped_gpt {
 public:
  explicit swapped_gpt(nn::gpt model, std::uint32_t micro_batches)
      : model_{std::move(model)}, routes_{plan::swapped_routes(stages + 1, micro_batches)} {}

  parameter_store& parameters() { return model_.parameters(); }
  [[nodiscard]] std::uint64_t config_hash() const { return model_.config_hash(); }
  kernels::cpu_backend& backend() { return model_.backend(); }
  result<double> forward_backward(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets,
                                  std::int64_t sequences, float scale, std::uint64_t stream) {
    const nn::micro_batch b{inputs, targets, sequences, scale, stream};
    std::vector<nn::gpt::tape_type> tapes;
    std::vector<nn::stage_pass> passes;
    for (const std::uint32_t block : routes_[next_++ % routes_.size()]) {  // a block for each rank
      tapes.push_back(model_.make_tape());
      tensor boundary = passes.empty() ? tensor{} : std::move(passes.back().output.value);
      CAUSEWAY_ASSIGN(nn::stage_pass pass, model_.forward_stage(tapes.back(), {block, block + 1}, b, std::move(boundary)));
      passes.push_back(std::move(pass));
    }
    tensor d;
    for (std::size_t i = passes.size(); i-- > 0;) {
      CAUSEWAY_ASSIGN(d, model_.backward_stage(tapes[i], passes[i], std::move(d)));
    }
    return passes.back().loss;
  }
  result<double> evaluate(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets,
                          std::int64_t sequences) {
    return model_.evaluate(inputs, targets, sequences);
  }

 private:
  nn::gpt model_;
  std::vector<std::vector<std::uint32_t>> routes_;
  std::size_t next_ = 0;
};
static_assert(Model<swapped_gpt>);

support::trained_model reference(const elastic_world_options& o) {
  const support::pipeline_case c{
      .micro_batches = o.micro_batches, .sequences = o.micro_batches, .steps = o.steps, .clip_norm = o.clip_norm};
  support::trained_model out;
  support::run_cluster(1, [&](std::uint32_t, environment env) {
    auto options = support::small_gpt(o.layers);
    options.joined_ends = true;
    auto model = nn::gpt::create(options, kernels::cpu_backend{1});
    auto t = make_trainer(swapped_gpt{std::move(*model), static_cast<std::uint32_t>(o.micro_batches)}, std::move(env),
                          support::trainer_options_for(c), comm::every_step<>{}, optim::adamw{},
                          parallel::data_parallel{{.micro_batches = o.micro_batches}});
    support::detail::train_and_note(t, c, 0, true, out);
    support::detail::collect(t.model().parameters(), out.parameters);
  });
  return out;
}

auto ring(const elastic_world_options& o) { return elastic_world{o, support::with(swapped_neighbours{})}; }

// The host that had that stage in the last step of a quiet run.
std::uint32_t host_of_stage(const elastic_world_options& o, std::int64_t stage) {
  auto w = ring(o);
  w.boot();
  w.run();
  REQUIRE(w.finished() == o.hosts);
  for (std::uint32_t h = 0; h < o.hosts; ++h) {
    const stage::assignment* const a = w.last_assignment(h);
    if (a != nullptr && a->computes.first == stage) return h;
  }
  FAIL("nobody has it");
  return 0;
}

std::uint64_t made_up(support::any_elastic_world& w, std::uint32_t hosts) {
  std::uint64_t sum = 0;
  for (std::uint32_t h = 0; h < hosts; ++h) sum += w.at(h).made_up;
  return sum;
}

// All that finished had the same losses; up to `rounding`, these.
bool had(support::any_elastic_world& w, std::uint32_t hosts, const std::map<std::uint64_t, double>& losses,
         double rounding) {
  for (std::uint32_t h = 0; h < hosts; ++h) {
    if (!w.at(h).finished) continue;
    for (const auto& [step, loss] : w.at(h).losses) {
      const auto other = losses.find(step);
      if (other != losses.end() && !(std::abs(other->second - loss) <= rounding)) return false;
    }
  }
  return true;
}

const std::map<std::uint64_t, double>& losses_of_first(support::any_elastic_world& w, std::uint32_t hosts) {
  std::uint32_t h = 0;
  while (h + 1 < hosts && !w.at(h).finished) ++h;
  return w.at(h).losses;
}

// A ring and a spare peer; the victim dies at that call. How many stages were made up.
std::uint64_t check_made_up(elastic_world_options o, std::uint32_t victim, std::uint64_t call,
                            const std::map<std::uint64_t, double>& undisturbed) {
  o.victim = victim;
  o.dies_at = call;
  CAPTURE(victim, call);
  auto w = ring(o);
  w.wanted = o.hosts - 1;
  w.boot();
  w.run();
  CHECK(errors_of(w, o.hosts).empty());
  CHECK(w.finished() >= o.hosts - 1);
  CHECK(had(w, o.hosts, losses_of_first(w, o.hosts), 0));
  const std::uint64_t made = made_up(w, o.hosts);
  CHECK(made <= 1);
  if (made == 0) CHECK(had(w, o.hosts, undisturbed, 5e-5));
  return made;
}

}  // namespace

TEST_CASE("elastic rings: whoever is lost of two pipelines, the run comes to the model with swaps",
          "[parallel][elastic][fast]") {
  auto o = world_of(2 * (stages + 1));
  o.victim = GENERATE(1U, 9U);
  support::worlds_come_to(reference(o), o, ring, support::founded, 3);
}

TEST_CASE("elastic rings: a stage that nobody has is made up, and evaluations go straight on",
          "[parallel][elastic][fast]") {
  auto o = world_of(stages + 2);
  o.evaluations = 1;
  const auto whole = reference(o);
  auto quiet = ring(o);
  quiet.boot();
  quiet.run();
  REQUIRE(quiet.finished() == o.hosts);
  CHECK(quiet.distance(whole) < 5e-5);
  for (std::uint32_t h = 0; h < o.hosts; ++h) {
    REQUIRE(quiet.at(h).evaluated.contains(o.steps));
    CHECK(quiet.at(h).evaluated.at(o.steps) == Approx(whole.evaluated).epsilon(1e-5));
  }
  std::uint32_t victim = 0;
  for (std::uint32_t h = 1; h < o.hosts; ++h) {
    const stage::assignment* const a = quiet.last_assignment(h);
    if (a != nullptr && (a->computes.first == 1 || a->computes.first == stages)) victim = h;
  }
  REQUIRE(victim > 0);
  o.victim = victim;
  o.dies_at = quiet.at(victim).calls * 2 / 3;
  auto w = ring(o);
  w.wanted = o.hosts - 1;
  w.boot();
  w.run();
  CHECK(errors_of(w, o.hosts).empty());
  CHECK(w.finished() == o.hosts - 1);
  CHECK(had(w, o.hosts, losses_of_first(w, o.hosts), 0));
  CHECK(made_up(w, o.hosts) == 1);
}

TEST_CASE("elastic rings: without its ends a run goes back to what is saved", "[parallel][elastic][fast]") {
  auto o = world_of(stages + 2);
  const auto whole = reference(o);
  o.store_every = 1;
  o.victim = host_of_stage(o, 0);
  o.dies_at = 400;
  auto w = ring(o);
  w.wanted = o.hosts - 1;
  w.boot();
  w.run();
  CHECK(errors_of(w, o.hosts).empty());
  CHECK(w.finished() == o.hosts - 1);
  CHECK(made_up(w, o.hosts) == 0);
  CHECK(w.distance(whole) < 5e-5);
}

TEST_CASE("elastic rings: any stage, killed at any network call, is made up or not needed",
          "[parallel][elastic][slow][every_call]") {
  const auto o = world_of(stages + 2);
  const std::uint32_t victim = host_of_stage(o, GENERATE(1, 2, 3, 4));
  if (victim == 0) return;  // it founds the run
  auto quiet = ring(o);
  quiet.boot();
  quiet.run();
  const auto losses = losses_of_first(quiet, o.hosts);
  REQUIRE(losses.size() == o.steps);
  std::uint64_t made = 0;
  for (std::uint64_t call = support::founded; call < quiet.at(victim).calls; call += 7) {
    made += check_made_up(o, victim, call, losses);
  }
  CHECK(made > 5);
}

TEST_CASE("elastic rings: model, recovery and schedule must go together", "[parallel][elastic][fast]") {
  const auto outcome_of = [](elastic_world_options o, auto make) {
    elastic_world w{o, make};
    w.boot();
    w.run(1s);
    return errors_of(w, o.hosts);
  };
  auto o = world_of(1);
  CHECK_THAT(outcome_of(o, support::with(stage::recovery::regroup{1})), Catch::Matchers::Contains("joined_ends is for"));
  o.joined_ends = false;
  CHECK_THAT(outcome_of(o, support::with(swapped_neighbours{})), Catch::Matchers::Contains("set joined_ends"));
  o.joined_ends = true;
  const auto gpipe = [](parallel::elastic_pipeline_options options) {
    return parallel::elastic_pipeline<swapped_neighbours, stage::gpipe>{std::move(options)};
  };
  CHECK_THAT(outcome_of(o, gpipe), Catch::Matchers::Contains("an order of its own"));
}

}  // namespace causeway
