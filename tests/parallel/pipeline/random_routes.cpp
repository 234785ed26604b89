// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/pipeline/random_routes.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/comm/periodic.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/pipelines.hpp"

namespace causeway::parallel {
namespace {

using support::pipeline_case;
using support::small_gpt;

auto routed(bool random) {
  return [random](pipeline_options o) {
    o.random_routes = random;
    return pipeline<>{o};
  };
}
auto every_step = [] { return comm::every_step<>{}; };
auto seldom = [] { return comm::periodic<>{{.local_steps = 100}}; };

/// The largest difference of any parameter.
float apart(const support::trained_model& a, const support::trained_model& b) {
  float most = 0;
  for (const auto& [name, values] : a.parameters) {
    for (std::size_t i = 0; i < values.size(); ++i) most = std::max(most, std::abs(values[i] - b.parameters.at(name)[i]));
  }
  return most;
}

}  // namespace

TEST_CASE("random routes: each is a permutation, and its ways are the same wherever one looks", "[parallel][fast]") {
  const random_routes routes{4, 3, 7};
  std::set<std::vector<std::uint32_t>> seen;
  for (std::uint64_t step = 0; step < 40; ++step) {
    for (std::uint32_t m = 0; m < 6; ++m) {
      std::vector<std::vector<std::uint32_t>> counts(3, std::vector<std::uint32_t>(4));
      for (std::uint32_t r = 0; r < 4; ++r) {
        const auto way = routes.way(step, m, r, 0);
        CHECK(way.front() == r);
        seen.insert(way);
        for (std::uint32_t s = 0; s < 3; ++s) {
          ++counts[s][way[s]];
          CHECK(routes.way(step, m, way[s], s) == way);
        }
      }
      for (const auto& stage : counts) CHECK(stage == std::vector<std::uint32_t>(4, 1));
    }
  }
  CHECK(seen.size() == 64);  // all that there are: fixed pairs would be 4
}

TEST_CASE("random routes: the mean gradient of all replicas is that of the unsplit model", "[parallel][fast]") {
  const pipeline_case c{.ranks = 3, .replicas = 3, .steps = 4, .clip_norm = 0};
  auto o = small_gpt(3);
  o.tie = GENERATE(false, true);
  const auto cut = support::train_pipelines(o, c, every_step, routed(true));
  CHECK(apart(cut, support::train_whole(o, c, every_step)) < 2e-4F);
}

TEST_CASE("random routes: between exchanges a stage learns from all replicas' tokens", "[parallel][fast]") {
  const pipeline_case c{.ranks = 2, .replicas = 3, .steps = 4};
  const auto mixed = support::train_pipelines(small_gpt(), c, seldom, routed(true));
  CHECK(apart(mixed, support::train_pipelines(small_gpt(), c, seldom, routed(false))) > 1e-3F);
  CHECK(mixed == support::train_pipelines(small_gpt(), c, seldom, routed(true)));
  const pipeline_case alone{.ranks = 2};  // nobody to swap with
  CHECK(support::train_pipelines(small_gpt(), alone, seldom, routed(true)) ==
        support::train_pipelines(small_gpt(), alone, seldom, routed(false)));
}

TEST_CASE("random routes: whole stages are swapped, so a rank has one", "[parallel][fast]") {
  std::vector<std::string> errors(2);
  support::run_cluster(2, [&](std::uint32_t peer, environment env) {
    const pipeline_options o{.micro_batches = 4, .ranks = 2, .random_routes = true};
    auto model = nn::gpt::create(small_gpt(), kernels::cpu_backend{1},
                                 *part_of(o, *place_in(o, peer, 2), 4, 2, plan::stage_path::folded));
    auto t = make_trainer(std::move(*model), std::move(env), {}, every_step(), pipeline<stage::zero_bubble_v>{o});
    if (const auto started = t.start(); !started) errors[peer] = started.error().text();
  });
  for (const auto& e : errors) CHECK_THAT(e, Catch::Contains("one chunk on each rank"));
}

}  // namespace causeway::parallel
