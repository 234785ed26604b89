// SPDX-License-Identifier: Apache-2.0
// Elastic pipelines whose gradients are exchanged by a communication policy, with its codec and its residual, among the
// holders of the same blocks.
#include <causeway/parallel/elastic_pipeline.hpp>

#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/fp16.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/gossip.hpp>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "parallel/elastic/elastic_cases.hpp"
#include "parallel/elastic/gradient_world.hpp"
#include "parallel/elastic/local_pipeline_world.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "support/catch.hpp"
#include "support/cluster.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using support::elastic_world_options;
using support::gradient_world;
using support::of_two_models;
using support::parameters;
using support::undisturbed_gradients;

namespace {

/// Policies by what makes them.
struct dense {
  static auto make() { return comm::rounds{axis::every{1}, axis::gradient{}, axis::all_reduce<>{}}; }
};
struct dense_in_fragments {
  static auto make() { return comm::rounds{axis::every{1}, axis::gradient{}, axis::balanced{3}, axis::all_reduce<>{}}; }
};
struct half_precision {
  static auto make() { return comm::every_step<compress::fp16>{}; }
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
using demo = preset_of<presets::demo_options>;
using dion = preset_of<presets::dion_options>;
using trees = preset_of<presets::netstorm_options>;  // four rows

/// A peer comes in each step, where three are one pipeline; with it there are two.
template <class Policy>
void lets_newcomers_in() {
  support::newcomer_in_each_step<gradient_world<Policy>>(8, 15, support::make_two_pipelines);
}

}  // namespace

TEMPLATE_TEST_CASE(
    "elastic gradients: a policy without a codec gives the parameters of the unsplit model, whoever is killed",
    "[parallel][elastic][fast]", dense, dense_in_fragments, trees) {
  elastic_world_options o;
  std::vector<support::distinct_calls> calls;
  undisturbed_gradients<TestType>(o, &calls);
  const auto whole = gradient_world<TestType>{o}.unsplit();
  for (const std::uint32_t victim : {0U, 3U}) {
    o.victim = victim;
    for (std::uint64_t n = 96; n < calls[victim].count(); n += 3) {  // from when the run is founded
      CAPTURE(n, victim);
      o.dies_at = n;
      gradient_world<TestType> w{o};
      w.wanted = 3;
      w.boot();
      w.run();
      CHECK(support::errors_of(w, o.hosts).empty());
      CHECK(w.finished() >= 3);
      CHECK(w.distance(whole) < 5e-5);
    }
  }
}

TEMPLATE_TEST_CASE("elastic gradients: two pipelines make the steps of two whole models that average by the same policy",
                   "[parallel][elastic][fast]", dense, half_precision, largest_with_feedback, trees) {
  const auto o = support::two_pipelines();
  const parameters made = undisturbed_gradients<TestType>(o), dense_ones = undisturbed_gradients<dense>(o);
  CHECK(support::off(made, of_two_models<TestType>(o), o.layers) < 1e-3);
  const bool lossy = !std::is_same_v<TestType, dense> && !std::is_same_v<TestType, trees>;
  CHECK(lossy == (support::off(made, dense_ones, o.layers) > 2e-3));
}

TEMPLATE_TEST_CASE("elastic gradients: all peers are stopped, and go on from checkpoints with the same bits",
                   "[parallel][elastic][fast]", dense_in_fragments, eight_bits, largest_with_feedback, low_rank, trees) {
  support::goes_on_with_the_same_bits<TestType>();
}

TEMPLATE_TEST_CASE("elastic gradients: a run whose peers are all stopped goes on from what is saved",
                   "[parallel][elastic][fast]", dense, eight_bits, largest_with_feedback, low_rank, trees) {
  support::stop_all_and_start_again([](const elastic_world_options& o) { return gradient_world<TestType>{o}; },
                                    [](auto& w, const elastic_world_options& o) {
                                      support::holders_agree(w, o.hosts);
                                      if constexpr (std::is_same_v<TestType, dense>) CHECK(w.distance(w.unsplit()) < 5e-5);
                                    });
}

TEMPLATE_TEST_CASE("elastic gradients: with codecs the run goes on, whoever is killed at whichever network call",
                   "[parallel][elastic][fast]", eight_bits, largest_with_feedback, low_rank) {
  support::goes_on_by_gradients<TestType>(7);
}

TEMPLATE_TEST_CASE("elastic gradients: presets that make steps of gradients go on, whoever is lost, and let others in",
                   "[parallel][elastic]", demo, dion, trees) {
  support::goes_on_by_gradients<TestType>(11);
  lets_newcomers_in<TestType>();
}

TEMPLATE_TEST_CASE("elastic gradients: with codecs a peer may come in every step", "[parallel][elastic][fast]", eight_bits,
                   largest_with_feedback, low_rank) {
  lets_newcomers_in<TestType>();
}
