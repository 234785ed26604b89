// SPDX-License-Identifier: Apache-2.0
// Presets that compress what they exchange, against references of their papers and authors' code.

#include <causeway/optim/sgd.hpp>
#include <causeway/optim/sparse_steps.hpp>
#include <causeway/presets/compressed.hpp>

#include "support/traced_runs.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using presets::make;
using support::replay;
using support::replay_in_any_order;

TEST_CASE("traces: SPARTA", "[presets][trace][fast]") {
  const auto policy = [] { return make(presets::sparta_options{.share = 0.2}); };
  CHECK(replay_in_any_order<optim::sgd>(support::trace{"sparta"}, policy) < 1e-5);
}

TEST_CASE("traces: SPARTA with DiLoCo", "[presets][trace][fast]") {
  const auto policy = [] { return make(presets::sparta_diloco_options{.sparta = {.share = 0.2}, .local_steps = 4}); };
  CHECK(replay_in_any_order<optim::sgd>(support::trace{"sparta_diloco"}, policy) < 1e-5);
}

TEST_CASE("traces: PowerSGD", "[presets][trace][fast]") {
  const auto policy = [] { return make(presets::power_sgd_options{.rank = 2}); };
  CHECK(replay_in_any_order<optim::sgd>(support::trace{"power_sgd"}, policy) < 1e-5);
}

namespace {
struct traced_adam : optim::sparse_adam {
  traced_adam() : optim::sparse_adam{optim::sparse_adam_options{.epsilon = 1e-3F, .weight_decay = 0.01F}} {}
};
}  // namespace

TEST_CASE("traces: StellaTrain", "[presets][trace][fast]") {
  const auto policy = [](bool in_parts) {
    return [=] { return make(presets::stella_train_options{.share = 0.6, .in_parts = in_parts}); };
  };
  CHECK(replay_in_any_order<optim::sparse_sgd>(support::trace{"stella_train"}, policy(false)) < 1e-5);
  CHECK(support::replay<traced_adam>(support::trace{"stella_train_parts"}, policy(true)) < 1e-5);
}

TEST_CASE("traces: Gaia between sites at their own pace", "[presets][trace][fast]") {
  const auto policy = [](std::uint32_t most_ahead, float threshold = 0.2F) {
    return [=] { return make(presets::gaia_asp_options{.threshold = threshold, .most_ahead = most_ahead}); };
  };
  CHECK(replay_in_any_order<optim::sgd>(support::trace{"gaia_asp"}, policy(2),
                                        {.steps = {20ms, 27ms, 50ms}, .latency = 9ms}) < 1e-5);
  CHECK(replay_in_any_order<optim::sgd>(support::trace{"gaia"}, policy(1)) < 1e-5);  // a barrier in every step
  // A clock's updates are 292 bytes on the wire, and take 24.5 ms; a word is 96.
  CHECK(replay_in_any_order<optim::sgd>(support::trace{"gaia_asp_barrier"}, policy(100, 1e-9F),
                                        {.steps = {20ms, 27ms, 31ms}, .latency = 9ms, .bytes_per_s = 292 / 0.0245}) < 1e-5);
}

TEST_CASE("traces: Gaia's groups of sites, of which hubs talk to each other", "[presets][trace][fast]") {
  using groups = std::vector<std::vector<net::peer_index>>;
  const auto policy = [](groups of) {
    return [of] { return make(presets::gaia_asp_options{.threshold = 0.2F, .most_ahead = 3, .groups = of}); };
  };
  const support::trace t{"gaia_asp_hubs"};
  const std::vector<duration> steps{28ms, 23ms, 58ms, 23ms, 46ms};
  CHECK(replay<optim::sgd>(t, policy({{0, 1}, {2, 3, 4}}),
                           {.steps = steps, .latency = 9ms, .regions = {0, 0, 1, 1, 1}, .far = 47ms}) < 1e-5);
  CHECK(replay<optim::sgd>(t, policy({{2, 1, 0}, {4, 3}}),
                           {.steps = steps, .latency = 9ms, .regions = {1, 1, 1, 0, 0}, .far = 47ms, .reversed = true}) <
        1e-5);
}

TEST_CASE("traces: Gaia", "[presets][trace][fast]") {
  const auto policy = [] { return make(presets::gaia_options{.threshold = 0.2F}); };
  CHECK(replay_in_any_order<optim::sgd>(support::trace{"gaia"}, policy) < 1e-5);
}

TEST_CASE("traces: DeDLOC", "[presets][trace][fast]") {
  const support::trace t{"dedloc"};
  const auto policy = [] { return make(presets::dedloc_options{.batch = 16}); };
  const auto batch = [&](auto&, std::uint32_t peer, std::uint64_t) {
    return static_cast<std::int64_t>(t.numbers("batch")[peer]);
  };
  CHECK(replay_in_any_order<optim::sgd>(t, policy, {.steps = {20ms, 30ms, 50ms}}, batch) < 1e-5);
}

TEST_CASE("traces: CocktailSGD", "[presets][trace][fast]") {
  const auto policy = [] { return make(presets::cocktail_sgd_options{.mask_share = 0.5, .k = 3}); };
  CHECK(replay_in_any_order<optim::sgd>(support::trace{"cocktail_sgd"}, policy) < 1e-5);
}
