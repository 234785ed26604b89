// SPDX-License-Identifier: Apache-2.0
// Recoveries whose pipelines are cut in different ways, or whose peers have several stages, with gradients that a
// communication policy exchanges: range by range, among those who compute it.
#include <causeway/parallel/elastic_pipeline.hpp>

#include <causeway/compress/block_int8.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/optim/sparse_steps.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/gossip.hpp>

#include <cmath>
#include <cstdint>
#include <set>

#include "parallel/elastic/elastic_cases.hpp"
#include "parallel/elastic/gradient_world.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "parallel/elastic/segment_world.hpp"
#include "support/catch.hpp"

using namespace causeway;
using support::elastic_world_options;
using support::five_peers;
using support::gradient_world;
using support::parameters;
using support::undisturbed_gradients;
using support::whoever_is_killed;
using support::with_redundant;
using support::with_redundant_forward;
using support::with_templates;
using support::world_of;

namespace {

/// Policies by what makes them.
struct dense {
  static auto make() { return comm::rounds{axis::every{1}, axis::gradient{}, axis::all_reduce<>{}}; }
};
struct dense_in_fragments {  // several rows for each range
  static auto make() { return comm::rounds{axis::every{1}, axis::gradient{}, axis::balanced{3}, axis::all_reduce<>{}}; }
};
struct eight_bits {
  static auto make() { return comm::every_step<compress::block_int8>{}; }
};
struct largest_with_feedback {
  using codec = compress::sparse<compress::no_transform, compress::top_k, compress::none>;
  static auto make() {
    return comm::rounds{axis::every{1}, axis::gradient{}, axis::error_feedback{},
                        axis::gather_mean<codec>{codec{compress::no_transform{}, compress::top_k{{.k = 8}}}}};
  }
};
template <class Options>
struct preset_of {
  static auto make() { return presets::make(Options{}); }
};
using low_rank = preset_of<presets::power_sgd_options>;
using trees = preset_of<presets::netstorm_options>;  // likewise
using demo = preset_of<presets::demo_options>;
using dion = preset_of<presets::dion_options>;
struct late {  // whose rows are a step late
  static auto make() {
    return comm::rounds{axis::every{1}, axis::gradient{}, axis::one_round_late{}, axis::gather_mean<>{}};
  }
  static auto inner() { return optim::sgd{}; }
};
struct stella_train {
  static auto make() { return presets::make(presets::stella_train_options{.share = 0.5}); }
  static auto inner() { return optim::sparse_sgd{}; }
};

}  // namespace

TEMPLATE_TEST_CASE(
    "gradient segments: a policy without a codec gives the parameters of the unsplit model, whoever is killed",
    "[parallel][elastic][fast]", with_redundant<dense>, with_redundant_forward<dense>, with_templates<dense>,
    with_templates<trees>, with_redundant<dense_in_fragments>) {
  const auto whole = gradient_world<TestType>{world_of<TestType>()}.unsplit();
  whoever_is_killed<TestType>(6, [&](auto& w, const elastic_world_options& o) {
    CHECK(w.distance(whole) < 5e-5);
    support::holders_agree(w, o.hosts);
  });
}

TEMPLATE_TEST_CASE("gradient segments: with codecs the run goes on, whoever is killed", "[parallel][elastic][fast]",
                   with_redundant<eight_bits>, with_redundant<largest_with_feedback>, with_redundant<low_rank>,
                   with_redundant_forward<largest_with_feedback>, with_templates<largest_with_feedback>,
                   with_templates<low_rank>, with_redundant<late>, with_templates<late>, with_redundant<demo>,
                   with_redundant<dion>, with_redundant<stella_train>) {
  const auto quiet = world_of<TestType>();
  const double loss = support::held_out_loss(undisturbed_gradients<TestType>(quiet), quiet.layers);
  whoever_is_killed<TestType>(3, [&](auto& w, const elastic_world_options& o) {
    CHECK(std::abs(support::held_out_loss(support::holders_agree(w, o.hosts), o.layers) / loss - 1) < 0.03);
  });
}

TEMPLATE_TEST_CASE("gradient segments: whoever is killed, at network calls all over the run", "[parallel][elastic]",
                   with_redundant<largest_with_feedback>, with_redundant<low_rank>, with_redundant_forward<low_rank>,
                   with_templates<largest_with_feedback>) {
  const auto quiet = world_of<TestType>();
  const double loss = support::held_out_loss(undisturbed_gradients<TestType>(quiet), quiet.layers);
  whoever_is_killed<TestType>(31, [&](auto& w, const elastic_world_options& o) {
    CHECK(std::abs(support::held_out_loss(support::holders_agree(w, o.hosts), o.layers) / loss - 1) < 0.03);
  });
}

TEMPLATE_TEST_CASE("gradient segments: a peer may come in every step", "[parallel][elastic][fast]",
                   with_redundant<largest_with_feedback>, with_redundant_forward<low_rank>) {
  support::newcomer_in_each_step<gradient_world<TestType>>(4, 12, support::make_two_pipelines);
}

TEMPLATE_TEST_CASE("gradient segments: checkpoints go on with the same bits", "[parallel][elastic][fast]",
                   with_redundant<largest_with_feedback>, with_redundant_forward<low_rank>) {
  support::goes_on_with_the_same_bits<TestType>();
}

TEST_CASE("gradient segments: pipelines of two and three stages exchange rows, which a codec rounds",
          "[parallel][elastic][fast]") {
  using lossy = with_templates<largest_with_feedback>;
  const auto o = five_peers();
  gradient_world<lossy> w{o};
  w.boot();
  w.run();
  CHECK(support::errors_of(w, o.hosts).empty());
  REQUIRE(w.finished() == o.hosts);
  std::set<std::size_t> stages;
  for (const auto& r : w.at(0).layouts.at(o.steps).replicas) stages.insert(r.assignments.size());
  CHECK(stages == std::set<std::size_t>{2, 3});
  const parameters exact = undisturbed_gradients<with_templates<dense>>(o);
  CHECK(support::off(support::holders_agree(w, o.hosts), exact, o.layers) > 2e-3);
}

TEST_CASE("gradient segments: checkpoints of peers with several rows go on with the same bits",
          "[parallel][elastic][fast]") {
  using lossy = with_templates<largest_with_feedback>;
  const auto o = five_peers();
  const parameters quiet = undisturbed_gradients<lossy>(o);
  support::local_checkpoints saved{.after = 3};
  gradient_world<lossy> w{o, &saved};
  support::stop_all_once_saved(w, saved, o.hosts);
  CHECK(support::errors_of(w, o.hosts).empty());
  REQUIRE(w.finished() == o.hosts);
  CHECK(support::holders_agree(w, o.hosts) == quiet);
}
