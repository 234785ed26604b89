// SPDX-License-Identifier: Apache-2.0
// Swarms whose gradients are exchanged by a communication policy, with its codec and what it keeps, among the peers of a
// stage.
#include <causeway/parallel/swarm.hpp>

#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/fp16.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/gossip.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "parallel/swarm/swarm_gradient_cases.hpp"
#include "support/catch.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using support::named_parameters;
using namespace support::gradients;

namespace {

struct dense : exact_steps {
  static auto make() { return comm::rounds{axis::every{1}, axis::gradient{}, axis::all_reduce<>{}}; }
};
struct half_precision : exact_steps {
  static auto make() { return comm::every_step<compress::fp16>{}; }
};
struct eight_bits : exact_steps {
  static auto make() { return comm::every_step<compress::block_int8>{}; }
};
struct eight_bits_with_feedback : steps_with_residual {
  static auto make() {
    return comm::rounds{axis::every{1}, axis::gradient{}, axis::error_feedback{}, axis::all_reduce<compress::block_int8>{}};
  }
};
struct largest_with_feedback : steps_with_residual {
  using codec = compress::sparse<compress::no_transform, compress::top_k, compress::none>;
  static auto make() {
    return comm::rounds{axis::every{1}, axis::gradient{}, axis::error_feedback{},
                        axis::gather_mean<codec>{codec{compress::no_transform{}, compress::top_k{{.k = 64}}}}};
  }
};
struct low_rank : steps_with_residual {
  static auto make() { return presets::make(presets::power_sgd_options{}); }
};
/// A third of the momentum goes with a lost peer, of ten or more steps.
struct steps_of_momentum : steps_with_residual {
  static constexpr double learned = 0.6;
};
struct demo : steps_of_momentum {
  static auto make() { return presets::make(presets::demo_options{}); }
};
/// Of a rank that small gradients have: what is orthonormal to them is made of rounding.
struct dion : steps_of_momentum {
  static auto make() { return presets::make(presets::dion_options{.rank = 2}); }
};
/// At parameters of each peer's own.
struct distro : steps_of_momentum {
  static auto make() { return presets::make(presets::distro_options{}); }
};
struct late_with_feedback : largest_with_feedback {
  static auto make() {
    return comm::rounds{axis::every{1}, axis::gradient{}, axis::error_feedback{}, axis::one_round_late{},
                        axis::gather_mean<codec>{codec{compress::no_transform{}, compress::top_k{{.k = 64}}}}};
  }
};
/// A step late, too. What a peer sends depends on how many there are.
struct stella : steps_with_residual {
  static auto make() { return presets::make(presets::stella_train_options{.share = 0.5}); }
};
/// Four rows.
struct trees : exact_steps {
  static auto make() { return presets::make(presets::netstorm_options{}); }
};

}  // namespace

TEMPLATE_TEST_CASE("swarm gradients: pairs of peers make the steps of two pipelines that average by the same policy",
                   "[parallel][fast]", dense, half_precision, eight_bits, eight_bits_with_feedback, largest_with_feedback,
                   low_rank, demo, dion, distro, stella, trees) {
  const auto o = two_pairs();
  const auto made = quietly<in_pairs<TestType>>(o).parameters;
  CHECK(made == of_two_pipelines<TestType>(o));
  const double from_dense = off(made, quietly<in_pairs<dense>>(o).parameters);
  const bool exact = std::is_same_v<TestType, dense> || std::is_same_v<TestType, trees>;
  CHECK((exact ? from_dense < 1e-6 : from_dense > 1e-4));
}

TEMPLATE_TEST_CASE("swarm gradients: where rows are cut alike these are the steps of two whole models", "[parallel][fast]",
                   dense, half_precision, largest_with_feedback, demo, distro, stella, trees) {
  const auto o = two_pairs();
  CHECK(quietly<in_pairs<TestType>>(o).parameters == of_two_models<TestType>(o));
}

TEMPLATE_TEST_CASE("swarm gradients: a peer that has no part in a step may be lost, and nothing of what others keep is",
                   "[parallel][fast]", eight_bits_with_feedback, largest_with_feedback, late_with_feedback, low_rank, demo,
                   dion, distro) {
  const auto quiet = quietly<in_pairs<TestType>>(of_three());
  killed_all_along<in_pairs<TestType>>(of_three(), quiet.idle, 13, 0s,
                                       [&](const named_parameters& made) { CHECK(off(made, quiet.parameters) < 1e-5); });
}

TEMPLATE_TEST_CASE("swarm gradients: policies that round nothing make the same steps, whoever is killed",
                   "[parallel][fast]", dense, trees) {
  const auto o = of_three();
  const auto quiet = quietly<gradient_swarm<TestType>>(o).parameters;
  const auto as_quiet = [&](const named_parameters& made) { CHECK(off(made, quiet) < 1e-6); };
  killed_all_along<gradient_swarm<TestType>>(o, {1}, 37, 0s, as_quiet);
  killed_all_along<gradient_swarm<TestType>>(o, {5}, 37, 1s, as_quiet);
}

TEMPLATE_TEST_CASE("swarm gradients: what a lost peer kept is lost with it, and the run learns on", "[parallel][fast]",
                   eight_bits, largest_with_feedback, low_rank, demo, dion, distro, stella) {
  const auto o = to_learn();
  const double quiet = learned(quietly<learning_swarm<TestType>>(o).parameters);
  CHECK(quiet > 0.1);
  const auto learns = [&](const named_parameters& made) { CHECK(learned(made) > TestType::learned * quiet); };
  killed_all_along<learning_swarm<TestType>>(o, {1}, 193, 0s, learns);
  killed_all_along<learning_swarm<TestType>>(o, {5}, 193, 1s, learns);
}

TEMPLATE_TEST_CASE("swarm gradients: all peers of a stage are killed, and take the step that the others have taken",
                   "[parallel][fast]", dense, low_rank, trees) {
  auto o = of_three();
  const auto quiet = quietly<gradient_swarm<TestType>>(o).parameters;
  o.die_with = {3, 4};
  killed_all_along<gradient_swarm<TestType>>(
      o, {5}, 37, 1s, [&](const named_parameters& made) { CHECK(off(made, quiet) < (TestType::keeps ? 0.7 : 1e-6)); });
}

TEMPLATE_TEST_CASE("swarm gradients: a peer may come in every step", "[parallel][fast]", dense, half_precision,
                   largest_with_feedback, low_rank, demo, dion, distro, stella, trees) {
  auto o = to_learn();
  const double quiet = learned(quietly<learning_swarm<TestType>>(o).parameters);
  o.late = {5};
  for (std::size_t step = 1; step < 6; ++step) {
    INFO("it comes after step " << step);
    learning_swarm<TestType> swarm{o};
    swarm.boot();
    while (swarm.at(0).ends.size() < step)
      swarm.world().run_until(causeway::time_point{swarm.world().now().since_start + 10ms});
    swarm.boot(5);
    swarm.run(2min);
    CHECK(learned(made_by(swarm)) > TestType::learned * quiet);
    CHECK(swarm.at(5).ends.size() > 5);  // it has made steps itself
  }
}

TEMPLATE_TEST_CASE("swarm gradients: all peers are stopped, and go on from disks and checkpoints, but for residuals",
                   "[parallel][fast]", half_precision, eight_bits, largest_with_feedback, low_rank, demo, distro, trees) {
  const auto o = of_three();
  const auto quiet = quietly<in_pairs<TestType>>(o).parameters;
  for (const std::uint64_t step : {2U, 4U}) {
    INFO("all are stopped after step " << step);
    support::step_checkpoints saved{.after = step, .by_peer = {}};
    gradient_steps<TestType>::checkpoints = &saved;
    in_pairs<TestType> swarm{o};
    swarm.boot();
    while (saved.by_peer.size() < 6) swarm.world().run_until(causeway::time_point{swarm.world().now().since_start + 1ms});
    for (std::uint32_t h = 0; h < 6; ++h) swarm.world().kill(h);
    for (std::uint32_t h = 0; h < 6; ++h) swarm.world().restart(h);
    swarm.run(2min);
    gradient_steps<TestType>::checkpoints = nullptr;
    const auto made = made_by(swarm);
    if (!TestType::keeps) CHECK(made == quiet);
  }
}

TEMPLATE_TEST_CASE("swarm gradients: a peer is lost at every single network call", "[parallel][slow][every_call]", dense,
                   largest_with_feedback, low_rank) {
  const auto o = of_three();
  const auto quiet = quietly<in_pairs<TestType>>(o);
  killed_all_along<in_pairs<TestType>>(o, {quiet.idle.back()}, 1, 0s,
                                       [&](const named_parameters& made) { CHECK(off(made, quiet.parameters) < 1e-5); });
  const std::uint32_t busy = quiet.idle.back() == 5 ? 4 : 5;
  killed_all_along<in_pairs<TestType>>(o, {busy}, 3, 1s, [&](const named_parameters& made) {
    if (!TestType::keeps) CHECK(off(made, quiet.parameters) < 1e-6);
  });
}

TEST_CASE("swarm gradients: both ends refuse a policy that rounds where they share a table", "[parallel][fast]") {
  gradient_swarm<half_precision, stage::routing::least_load, support::tied_gpt_job> swarm{two_pairs()};
  swarm.boot();
  swarm.run(5s);
  for (std::uint32_t h = 0; h < swarm.hosts(); ++h) {
    CHECK(swarm.at(h).error.find("unsupported") != std::string::npos);
    CHECK(swarm.at(h).error.find("untied embeddings") != std::string::npos);
  }
}
