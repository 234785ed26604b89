// SPDX-License-Identifier: Apache-2.0
// Presets that train by local updates, against references of their papers and authors' code.

#include <causeway/comm/post_local.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/presets/local_updates.hpp>

#include "support/traced_runs.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using presets::make;
using support::replay;
using support::replay_in_any_order;

namespace {

constexpr presets::edit_options traced_edit{.local_steps = 2,
                                            .warm_up = 3,
                                            .decay = 0.25,
                                            .threshold = 1.5,
                                            .clip = 1.5,
                                            .outer_learning_rate = 0.7F,
                                            .outer_momentum = 0.8F};

/// Peer p trains on batches of as many sequences as the trace says.
template <class MakePolicy>
double replay_batches(const support::trace& t, MakePolicy policy) {
  return replay<optim::sgd>(t, policy, {}, [&](auto&, std::uint32_t peer, std::uint64_t) {
    return static_cast<std::int64_t>(t.numbers("batch")[peer]);
  });
}

}  // namespace

TEST_CASE("traces: FedAvg", "[presets][trace][fast]") {
  const auto policy = [] { return make(presets::fedavg_options{.local_steps = 3, .share = 0.5}); };
  CHECK(replay_batches(support::trace{"fedavg"}, policy) < 1e-5);
}

TEST_CASE("traces: Photon", "[presets][trace][fast]") {
  const auto policy = [] {
    return make(
        presets::photon_options{.local_steps = 3, .share = 0.5, .outer_learning_rate = 0.8F, .outer_momentum = 0.5F});
  };
  CHECK(replay_batches(support::trace{"photon"}, policy) < 1e-5);
}

TEST_CASE("traces: with everybody drawn FedAvg is Local SGD, and so is Photon whose server averages, whoever is which peer",
          "[presets][trace][fast]") {
  const support::trace t{"local_sgd"};
  const auto fedavg = [] { return make(presets::fedavg_options{.local_steps = 3, .share = 1.0}); };
  CHECK(replay_in_any_order<optim::sgd>(t, fedavg) < 1e-5);
  const auto photon = [] {
    return make(
        presets::photon_options{.local_steps = 3, .share = 1.0, .outer_learning_rate = 1.0F, .outer_momentum = 0.0F});
  };
  CHECK(replay_in_any_order<optim::sgd>(t, photon) < 1e-5);
}

TEST_CASE("traces: Co-learning", "[presets][trace][fast]") {
  const auto policy = [] {
    return make(
        presets::co_learning_options{{.local_steps = 2, .most = 8, .factor = 2, .tolerance = 0.3, .cycle_end = 0.25F}});
  };
  CHECK(replay_in_any_order<optim::sgd>(support::trace{"co_learning"}, policy) < 1e-5);
}

TEST_CASE("traces: DiLoCo", "[presets][trace][fast]") {
  const auto policy = [] { return make(presets::diloco_options{.local_steps = 4}); };
  CHECK(replay_in_any_order<optim::adamw>(support::trace{"diloco"}, policy) < 1e-5);
}

TEST_CASE("traces: OpenDiLoCo", "[presets][trace][fast]") {
  const auto policy = [] { return make(presets::open_diloco_options{{.local_steps = 4}}); };
  CHECK(replay_in_any_order<optim::adamw>(support::trace{"open_diloco"}, policy) < 1e-5);
}

TEST_CASE("traces: Local SGD", "[presets][trace][fast]") {
  const auto policy = [] { return make(presets::local_sgd_options{.local_steps = 3}); };
  CHECK(replay_in_any_order<optim::sgd>(support::trace{"local_sgd"}, policy) < 1e-5);
}

TEST_CASE("traces: DES-LOC", "[presets][trace][fast]") {
  const auto policy = [] {
    return make(presets::des_loc_options{.parameters_every = 2, .first_moment_every = 3, .second_moment_every = 4});
  };
  CHECK(replay_in_any_order<optim::adamw>(support::trace{"des_loc"}, policy) < 1e-5);
}

// Its sums are rounded to 8 bits at each peer of a ring, so that it matters who is which.
TEST_CASE("traces: INTELLECT-1", "[presets][trace][fast]") {
  const auto policy = [] { return make(presets::intellect1_options{.local_steps = 4}); };
  CHECK(replay<optim::sgd>(support::trace{"intellect1"}, policy) < 1e-5);
}

TEST_CASE("traces: EDiT, with outliers of one peer and of all", "[presets][trace][fast]") {
  const auto policy = [] { return make(traced_edit); };
  CHECK(replay_in_any_order<optim::sgd>(support::trace{"edit"}, policy) < 1e-5);
}

TEST_CASE("traces: EDiT after synchronous first steps", "[presets][trace][fast]") {
  const auto policy = [] { return comm::post_local{make(traced_edit), {.steps = 5}}; };
  CHECK(replay_in_any_order<optim::adamw>(support::trace{"edit_synchronous"}, policy) < 1e-5);
}

TEST_CASE("traces: A-EDiT, with peers that end before others", "[presets][trace][fast]") {
  const auto policy = [] {
    return make(presets::a_edit_options{.seconds = 0.11,
                                        .fewest_steps = 20,
                                        .warm_up = 3,
                                        .decay = 0.25,
                                        .threshold = 1.5,
                                        .clip = 1.5,
                                        .outer_learning_rate = 0.7F,
                                        .outer_momentum = 0.8F});
  };
  CHECK(replay_in_any_order<optim::sgd>(support::trace{"a_edit"}, policy,
                                        {.steps = {20ms, 30ms, 50ms}, .by_sequence = true, .latency = 100us}) < 1e-5);
}
