// SPDX-License-Identifier: Apache-2.0
// Pipelines without a flush between two records, with a hub for each stage.
#include <causeway/parallel/local_async_pipeline.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "parallel/elastic/hubs_of_stages.hpp"
#include "parallel/elastic/late_model.hpp"
#include "parallel/elastic/local_pipeline_world.hpp"
#include "support/catch.hpp"

using namespace causeway;

namespace {

template <class Policy>
struct streamed : Policy {
  using pipeline = parallel::local_async_pipeline<>;
};
using async_local_sgd = streamed<support::async_local_sgd>;
using decoupled_diloco = streamed<support::decoupled_diloco>;
using halos = streamed<support::halos>;

/// Three stages, the first of which has four micro-batches in flight, and goes back with the parameters of then.
struct deep : support::async_local_sgd {
  static auto pipelines(parallel::local_pipeline_options po) {
    return parallel::local_async_pipeline<>{std::move(po), stage::recovery::regroup{3},
                                            parallel::streamed_steps{{.stashing = false, .ahead = 1}}};
  }
};

/// The hub's two models, whose first half is a micro-batch late.
support::parameters by_hand(support::hub_of_two& hub, const support::elastic_world_options& o) {
  const std::int64_t part = o.micro_batches / 2;
  std::array<support::late_model, 2> models{support::late_model{o, part}, support::late_model{o, part}};
  std::vector<float> shared = models[0].now;
  for (std::uint64_t s = 0; s < o.steps; ++s) {
    const support::token_batch b{0, s, o.micro_batches};
    for (std::size_t m = 0; m < 2; ++m) {
      if (!hub.makes(m, s)) continue;
      models[m].step(b.view().slice(static_cast<std::int64_t>(m) * part, part), hub.is_last(m, s));
    }
    hub.after_step(s + 1, shared, {models[0].now, models[1].now});
  }
  return models[0].named();
}

template <std::int64_t MicroBatches>
void comes_to_what_is_made_by_hand() {
  auto o = support::two_pipelines();
  o.steps = 12;
  o.micro_batches = MicroBatches;
  o.clip_norm = 0;
  support::hub_of_two hub;
  const auto all = hub.run<streamed<support::in_pairs<MicroBatches>>>(o);
  CHECK(support::off(all, by_hand(hub, o), o.layers) < 1e-4);
}

}  // namespace

TEST_CASE("local async pipeline: hubs of stages come to what a hub of two models comes to whose first half is late",
          "[parallel][elastic][fast]") {
  comes_to_what_is_made_by_hand<2>();
  comes_to_what_is_made_by_hand<4>();
}

TEMPLATE_TEST_CASE("local async pipeline: hubs of stages go on whoever is lost, and let others in", "[parallel][elastic]",
                   async_local_sgd, decoupled_diloco, halos) {
  support::goes_on_whoever_is_killed<TestType>(29, 0.03);
  support::newcomers_push<TestType>();
}

TEST_CASE("local async pipeline: hubs go on when all were stopped", "[parallel][elastic][fast]") {
  support::hubs_go_on_when_all_were_stopped<async_local_sgd>();
  support::hubs_go_on_when_all_were_stopped<halos>();
}

TEST_CASE("local async pipeline: with hubs, and so they do whoever is lost at every single network call",
          "[parallel][elastic][slow][every_call]") {
  support::goes_on_whoever_is_killed<async_local_sgd>(1, 0.03);
}

TEST_CASE("local async pipeline: deep ones with hubs go on, whoever is killed", "[parallel][elastic][slow][every_call]") {
  auto o = support::two_pipelines();
  o.hosts = 6;
  o.layers = 3;
  support::goes_on_whoever_is_killed<deep>(7, 0.05, o);
}

TEST_CASE("local async pipeline: a spare peer takes a lost one's place, and pushes", "[parallel][elastic]") {
  support::spare_peers_push<async_local_sgd>();
}

TEMPLATE_TEST_CASE("local async pipeline: a stage that nobody has any more comes back with its hub", "[parallel][elastic]",
                   async_local_sgd, decoupled_diloco) {
  support::lost_stages_come_back<TestType>(61, 0.4);  // the record that follows a lost spare peer drains early
}
