// SPDX-License-Identifier: Apache-2.0
// Policies whose rounds follow what the model does, or what all peers have done, in pipelines: all stages decide alike, and
// as peers that hold the whole model do.
#include <causeway/parallel/pipeline.hpp>

#include <causeway/axis/by_speed.hpp>
#include <causeway/presets/asynchronous.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/local_updates.hpp>
#include <causeway/presets/overlapped.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/pipeline_runs.hpp"
#include "support/pipelines.hpp"

using namespace causeway;

namespace {

constexpr support::pipeline_case two_by_two{.ranks = 2, .replicas = 2, .micro_batches = 2, .sequences = 4, .steps = 16};

auto pipelines = [](const parallel::pipeline_options& with) { return parallel::pipeline<>{with}; };

// After the first round the whole model has moved by 0.0897 (with a tied table 0.0860), its stages by 0.0857 and 0.0945
// (0.0809 and 0.0920): one of them would decide otherwise.
auto co_learning = [] {
  return presets::make(
      presets::co_learning_options{{.local_steps = 2, .most = 8, .factor = 2, .tolerance = 0.088, .cycle_end = 0.25F}});
};
auto cocodc = [] {
  return presets::make(
      presets::cocodc_options{.local_steps = 8, .exchanges = 6, .blocks_in_fragment = 1, .overlap_steps = 1});
};

// To the bit but for a tied table, whose gradient is summed in another order, and for norms, which are.
void check_same(const support::trained_model& cut, const support::trained_model& whole, bool exact) {
  REQUIRE(cut.losses.size() == whole.losses.size());
  for (std::size_t i = 0; i < whole.losses.size(); ++i) CHECK(cut.losses[i] == Approx(whole.losses[i]).epsilon(1e-5));
  CHECK(cut.evaluated == Approx(whole.evaluated).epsilon(1e-5));
  CHECK((!exact || cut.parameters == whole.parameters));
  for (const auto& [name, values] : cut.last_rank) CHECK((values == cut.parameters.at(name)));
}

}  // namespace

TEST_CASE("pipeline: rounds grow by how much the whole model moves, on all stages at once", "[parallel][fast]") {
  auto o = support::small_gpt();
  o.tie = GENERATE(false, true);
  const auto whole = support::train_whole(o, two_by_two, co_learning);
  check_same(support::train_pipelines(o, two_by_two, co_learning, pipelines), whole, !o.tie);
}

TEST_CASE("pipeline: the fragment that has changed most in the whole model is next on all stages", "[parallel][fast]") {
  auto o = support::small_gpt();
  o.tie = GENERATE(false, true);
  const auto whole = support::train_whole(o, two_by_two, cocodc);
  check_same(support::train_pipelines(o, two_by_two, cocodc, pipelines), whole, !o.tie);
}

TEST_CASE("pipeline: stages exchange once all pipelines have enough samples together", "[parallel][fast]") {
  // A batch of either pipeline is a round; or three batches are, of the only one that trains, with one left over.
  auto [samples, idle] = GENERATE(std::pair{4U, 0U}, std::pair{12U, 1U});
  auto c = two_by_two;
  c.steps = 7;
  c.idle = idle;
  c.clip_norm = GENERATE(0.0F, 0.05F);
  const auto dedloc = [batch = samples] { return presets::make(presets::dedloc_options{.batch = batch}); };
  const auto whole = support::train_whole(support::small_gpt(), c, dedloc);
  check_same(support::train_pipelines(support::small_gpt(), c, dedloc, pipelines), whole, c.clip_norm == 0);
}

TEST_CASE("pipeline: all stages of one take the same batch, and as many steps, however quick it is", "[parallel][fast]") {
  const support::pipeline_case c{.ranks = 2, .replicas = 2, .micro_batches = 2};
  const auto by_speed = [] { return comm::rounds{axis::by_speed{{.local_steps = 3}}}; };
  const auto dlion = [] { return presets::make(presets::dlion_options{.sequences = 12, .multiple = 2}); };
  const auto run = [&](auto policy, auto sequences) {
    std::vector<std::vector<float>> ends(4);
    support::run_cluster(4, [&](std::uint32_t peer, environment env) {
      auto t = support::stage_trainer(support::small_gpt(2), c, std::move(env), policy(), pipelines);
      REQUIRE(t.start());
      while (t.context().round() < 4) {  // two stages that are given other batches are an error
        const support::token_batch b{peer / 2, t.context().step(), sequences(t.comm())};
        const auto report = t.step(b.view());
        if (!report) FAIL(report.error().text());
      }
      REQUIRE(t.finish());
      const auto values = t.model().parameters().values();
      ends[peer].assign(values.begin(), values.end());
    });
    CHECK((ends[0] == ends[2]));
    CHECK((ends[1] == ends[3]));
  };
  run(by_speed, [](const auto&) { return std::int64_t{4}; });
  run(dlion, [](const auto& policy) { return std::int64_t{policy.trigger().sequences()}; });
}

TEST_CASE("pipeline: a tied table has no sum of gradients over steps", "[parallel][fast]") {
  auto o = support::small_gpt();
  o.tie = true;
  const auto dedloc = [] { return presets::make(presets::dedloc_options{.batch = 4}); };
  support::run_cluster(2, [&](std::uint32_t, environment env) {
    auto t = support::stage_trainer(o, {.ranks = 2}, std::move(env), dedloc(), pipelines);
    const auto started = t.start();
    REQUIRE(!started);
    CHECK(started.error().code == errc::unsupported);
  });
}

TEST_CASE("pipeline: rounds that follow the model, stopped after any step, go on with the same bits", "[parallel][fast]") {
  auto c = two_by_two;
  c.steps = 5;
  const auto make = [c](environment env) {
    return support::stage_trainer(support::small_gpt(2), c, std::move(env), cocodc(), pipelines);
  };
  support::pipeline_runs{make, c}.check_stops();
}

TEST_CASE("pipeline: rounds that follow the model, lost at any network operation, go on from a common step",
          "[parallel][slow][every_call]") {
  auto c = two_by_two;
  c.steps = 6;
  const auto make = [c](environment env) {
    return support::stage_trainer(support::small_gpt(2), c, std::move(env), cocodc(), pipelines);
  };
  for (const std::uint32_t victim : {1U, 2U}) support::pipeline_runs{make, c}.check_losses(victim);
}
