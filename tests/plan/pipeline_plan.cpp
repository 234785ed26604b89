// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/pipeline_plan.hpp>

#include <causeway/plan/link_fixtures.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using plan::compute_device;
using plan::pipeline_plan_options;

namespace {

const plan::transformer_shape& gpt3_xl() { return *plan::find_transformer("gpt3-xl"); }

pipeline_plan_options quick(std::size_t stages, std::size_t replicas) {
  pipeline_plan_options o{.global_batch = 244, .stages = stages, .replicas = replicas};
  o.search = {.seed = 1, .population = 8, .children = 8, .evaluations = 3000};
  return o;
}

}  // namespace

TEST_CASE("a plan is quicker than blind ones and repeats with its seed", "[plan][fast]") {
  const plan::link_matrix links = plan::worldwide(16);
  const std::vector<compute_device> devices(16, {50e12, 16e9});
  const auto p = plan::plan_pipeline(gpt3_xl(), links, devices, quick(4, 4));
  REQUIRE(p);
  CHECK(p->stages() == 4);
  CHECK(p->where.replicas == 4);
  CHECK(p->split.blocks == 24);
  CHECK(p->work.micro_batches == 61);
  const plan::blind_steps blind = plan::estimate_blind(gpt3_xl(), links, devices, quick(4, 4), 4, 4, 50);
  CHECK(p->step.total() < 0.6 * blind.mean);
  CHECK(p->step.total() < 0.6 * blind.median);
  CHECK(p->step.total() <= blind.by_stage);
  CHECK(p->step.total() <= blind.by_replica);
  const auto again = plan::plan_pipeline(gpt3_xl(), links, devices, quick(4, 4));
  CHECK(again->where == p->where);
  CHECK(again->step.total() == p->step.total());
}

TEST_CASE("an open shape is chosen, and is no worse than the shapes around it", "[plan][fast]") {
  const plan::link_matrix links = plan::two_universities(12);
  const std::vector<compute_device> devices(12, {50e12, 24e9});
  const auto open = plan::plan_pipeline(gpt3_xl(), links, devices, quick(0, 0));
  REQUIRE(open);
  for (const std::size_t stages : {1U, 2U, 3U, 6U}) {
    const auto fixed = plan::plan_pipeline(gpt3_xl(), links, devices, quick(stages, 0));
    if (fixed) CHECK(open->step.total() <= fixed->step.total() * 1.02);
  }
}

TEST_CASE("slow devices get fewer blocks", "[plan][fast]") {
  const plan::link_matrix links{4, {0.001, 10e9}};
  const std::vector<compute_device> devices{{50e12}, {50e12}, {25e12}, {25e12}};
  const auto p = plan::plan_pipeline(gpt3_xl(), links, devices, quick(2, 2));
  REQUIRE(p);
  // The two slow devices share a stage, which is the smaller one.
  const bool slow_first = p->where.device(0, 0) >= 2;
  CHECK((p->where.device(0, 1) >= 2) == slow_first);
  const std::size_t first = p->split.end(0);
  CHECK((slow_first ? first : 24 - first) < 10);
}

TEST_CASE("what cannot be planned is refused with what would do", "[plan][fast]") {
  const plan::link_matrix links{4, {0.001, 10e9}};
  const std::vector<compute_device> small(4, {50e12, 4e9});
  const auto none = plan::plan_pipeline(gpt3_xl(), links, small, quick(0, 0));
  REQUIRE_FALSE(none);
  CHECK(none.error().code == errc::out_of_memory);
  CHECK(none.error().message.find("GB") != std::string::npos);
  CHECK_FALSE(plan::plan_pipeline(gpt3_xl(), links, small, quick(3, 2)));
  CHECK_FALSE(plan::plan_pipeline(gpt3_xl(), links, std::vector<compute_device>(3), quick(0, 0)));
  CHECK_FALSE(plan::plan_pipeline(gpt3_xl(), links, std::vector<compute_device>(4, {0}), quick(0, 0)));
}
