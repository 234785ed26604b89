// SPDX-License-Identifier: Apache-2.0
// Policies in which nobody waits for others, in pipelines: each stage has a hub of its own, in the same pipeline.
#include <causeway/parallel/pipeline.hpp>

#include <causeway/collective/norm_aggregators.hpp>
#include <causeway/presets/asynchronous.hpp>
#include <causeway/presets/compressed.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "support/catch.hpp"
#include "support/pipelines.hpp"

using namespace causeway;

namespace {

// The first pipeline is the hub of the other one, and trains nothing: so each push is answered before the next one comes.
constexpr support::pipeline_case hub_and_client{
    .ranks = 2, .replicas = 2, .micro_batches = 2, .sequences = 4, .steps = 9, .idle = 1};

auto pipelines = [](const parallel::pipeline_options& with) { return parallel::pipeline<>{with}; };

auto async_local_sgd = [] { return presets::make(presets::async_local_sgd_options{.local_steps = 2, .period = 2}); };
// Decoupled DiLoCo with exact rows.
auto decoupled = [] {
  return comm::async_parameter_server{axis::staggered{4},
                                      axis::balanced{4},
                                      axis::delayed{1, 0.5F},
                                      axis::quorum{},
                                      axis::push<compress::none, collective::radial_directional>{},
                                      axis::outer<optim::nesterov_in_parts>{0.7F}};
};

auto gaia = [] { return presets::make(presets::gaia_asp_options{.threshold = 0.001F, .most_ahead = 1}); };

template <class MakeComm>
void check_as_whole(MakeComm comm) {
  const auto o = support::small_gpt();
  const auto whole = support::train_whole(o, hub_and_client, comm);
  const auto cut = support::train_pipelines(o, hub_and_client, comm, pipelines);
  CHECK((cut.parameters == whole.parameters));
  CHECK(cut.evaluated == Approx(whole.evaluated).epsilon(1e-6));
}

template <class MakeComm>
error refusal(MakeComm comm, bool tie) {
  auto o = support::small_gpt(2);
  o.tie = tie;
  std::vector<error> errors(4);
  support::run_cluster(4, [&](std::uint32_t peer, environment env) {
    auto t = support::stage_trainer(o, {.ranks = 2, .replicas = 2}, std::move(env), comm(), pipelines);
    const auto started = t.start();
    if (!started) errors[peer] = started.error();
  });
  for (const error& e : errors) CHECK(e.text() == errors[0].text());
  return errors[0];
}

}  // namespace

TEST_CASE("pipeline: a stage that pushes to its hub is a part of a whole model that does", "[parallel][fast]") {
  check_as_whole(async_local_sgd);
}

TEST_CASE("pipeline: fragments go to the hubs of the stages that have them, after the steps of the whole model",
          "[parallel][fast]") {
  check_as_whole(decoupled);
}

TEST_CASE("pipeline: stages that tell each other their updates when they come are parts of a whole model that does",
          "[parallel][fast]") {
  check_as_whole(gaia);
}

TEST_CASE("pipeline: whoever pushes when, all replicas of a stage end with the same parameters", "[parallel][fast]") {
  const support::pipeline_case c{.ranks = 2, .replicas = 3, .micro_batches = 2, .sequences = 4, .steps = 12};
  const auto regions = [] {
    return presets::make(presets::halos_options{.regions = {{0, 1}, {2}}, .local_steps = 2, .pushes = 2});
  };
  const auto grouped = [] {
    return presets::make(presets::gaia_asp_options{.threshold = 0.001F, .groups = {{0, 1}, {2}}});
  };
  const auto o = support::small_gpt(2);
  std::vector<std::vector<float>> ends(6);
  const auto run = [&](auto comm) {
    support::run_cluster(6, [&](std::uint32_t peer, environment env) {
      auto t = support::stage_trainer(o, c, std::move(env), comm(), pipelines);
      support::trained_model unused;
      support::detail::train_and_note(t, c, peer / 2, false, unused);
      const auto values = t.model().parameters().values();
      ends[peer].assign(values.begin(), values.end());
    });
    for (std::size_t peer = 2; peer < 6; ++peer) CHECK((ends[peer] == ends[peer % 2]));
    for (const auto& end : ends) CHECK(std::isfinite(end[0]));
  };
  run(async_local_sgd);
  run(decoupled);
  run(regions);
  run(gaia);
  run(grouped);
}

TEST_CASE("pipeline: hubs of stages refuse what could keep them waiting for each other, and shared parameters",
          "[parallel][fast]") {
  const auto two = [] { return presets::make(presets::decoupled_diloco_options{.fragments = 2, .quorum = 2}); };
  const auto held = [] { return comm::async_parameter_server{axis::one_by_one{.most_ahead = 2}}; };
  CHECK_THAT(refusal(two, false).text(), Catch::Contains("a quorum of 1"));
  CHECK_THAT(refusal(held, false).text(), Catch::Contains("no `most_ahead`"));
  CHECK_THAT(refusal(async_local_sgd, true).text(), Catch::Contains("not tied"));
  CHECK_THAT(refusal(gaia, true).text(), Catch::Contains("not tied"));
}
