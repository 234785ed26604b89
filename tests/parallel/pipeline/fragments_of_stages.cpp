// SPDX-License-Identifier: Apache-2.0
// Stages that exchange pseudo-gradients in fragments: those of the whole model, of which some lie in other stages.
#include <causeway/comm/rounds.hpp>
#include <causeway/parallel/pipeline.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "support/catch.hpp"
#include "support/pipelines.hpp"

using namespace causeway;

TEMPLATE_TEST_CASE("pipeline: stages exchange fragments after the steps that the whole model does, and come to the same",
                   "[parallel][fast]", axis::consecutive, axis::balanced) {
  auto o = support::small_gpt(4);
  o.tie = GENERATE(false, true);
  const auto policy = [] {
    constexpr std::uint32_t of = std::is_same_v<TestType, axis::balanced> ? 5 : 1;
    return comm::rounds{axis::staggered{6}, TestType{of}, axis::gather_mean<>{}, axis::delayed{2, 0.5F}};
  };
  const auto pipeline = [](const parallel::pipeline_options& with) { return parallel::pipeline<>{with}; };
  const support::pipeline_case c{.ranks = 2, .replicas = 2, .steps = 8};
  const auto whole = support::train_whole(o, c, policy);
  const auto cut = support::train_pipelines(o, c, policy, pipeline);
  REQUIRE(cut.losses.size() == whole.losses.size());
  for (std::size_t i = 0; i < whole.losses.size(); ++i) CHECK(cut.losses[i] == Approx(whole.losses[i]).epsilon(1e-6));
  // The gradient of a tied table is summed in another order; each end exchanges it in the same fragment.
  CHECK((o.tie || cut.parameters == whole.parameters));
  for (const auto& [name, values] : cut.last_rank) CHECK((values == cut.parameters.at(name)));
}
