// SPDX-License-Identifier: Apache-2.0
// What makes compressed and lossy rounds train, on a problem small enough for every build: four peers, each with data of
// its own, so that no peer alone finds the optimum of all. bench/e2e/loss_table.cpp has the same with text and
// transformers.
#include <causeway/optim/sgd.hpp>
#include <causeway/optim/sparse_steps.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/local_updates.hpp>
#include <causeway/train/trainer.hpp>

#include <cmath>
#include <stdexcept>
#include <vector>

#include "support/blocky.hpp"
#include "support/catch.hpp"
#include "support/cluster.hpp"

using namespace causeway;
using presets::make;
using support::blocky;

namespace {

constexpr std::uint32_t peers = 4;

/// The tokens of a peer, the same in every step: its own optimum is the mean of their centres.
std::vector<std::int32_t> own_tokens(std::uint32_t peer) { return support::tokens_of(peer, 0); }

/// Distance of parameters to the optimum of all peers' tokens, as a part of what it was before training.
double distance(support::test_model& model) {
  double now = 0;
  double before = 0;
  blocky fresh;
  for (const auto& s : model.parameters().segments()) {
    for (std::int64_t i = s.offset; i < s.offset + s.size(); ++i) {
      double best = 0;
      for (std::uint32_t p = 0; p < peers; ++p) {
        for (const std::int32_t t : own_tokens(p)) best += double(support::quadratic::centre(t, i)) / (4.0 * peers);
      }
      const auto at = static_cast<std::size_t>(i);
      now += std::pow(double(model.parameters().values()[at]) - best, 2);
      before += std::pow(double(fresh.parameters().values()[at]) - best, 2);
    }
  }
  return std::sqrt(now / before);
}

/// Where `steps` inner steps of SGD lead to.
template <class Inner = optim::sgd, class MakePolicy>
double distance_after(std::uint64_t steps, MakePolicy policy) {
  std::vector<double> found(peers);
  support::run_cluster(peers, [&](std::uint32_t peer, environment env) {
    trainer_options options;
    options.clip_norm = 0;
    options.learning_rate = optim::constant{0.02F};
    auto t = make_trainer(support::test_model{blocky{}}, std::move(env), options, policy(), Inner{});
    const auto check = [](const auto& outcome) {
      if (!outcome) throw std::runtime_error{outcome.error().text()};
    };
    check(t.start());
    const auto tokens = own_tokens(peer);
    for (std::uint64_t s = 0; s < steps; ++s) check(t.step({tokens, tokens, 1}));
    check(t.finish());
    found[peer] = distance(t.model());
  });
  for (const double d : found) REQUIRE(d == found[0]);  // all peers end with the same parameters
  return found[0];
}

template <class... More>
auto diloco_with(float rate, More... more) {
  return comm::rounds{axis::every{5}, axis::outer<optim::nesterov>{rate, optim::nesterov{{.momentum = 0.6F}}}, more...};
}

}  // namespace

TEST_CASE("presets: DiLoCo finds the optimum of all peers, and with the sign turned it runs away", "[presets][fast]") {
  CHECK(distance_after(300, [] { return diloco_with(0.7F); }) < 0.02);
  CHECK(distance_after(300, [] { return diloco_with(-0.7F); }) > 2);
}

TEST_CASE("presets: DiLoCo trains on with half of the rows dropped, but not with all rows but one", "[presets][fast]") {
  CHECK(distance_after(300, [] { return diloco_with(0.7F, axis::dropped_rows{0.5}); }) < 0.2);
  // When all would be lost the first peer's comes: its own optimum is where that ends.
  CHECK(distance_after(300, [] { return diloco_with(0.7F, axis::dropped_rows{0.999}); }) > 0.3);
}

TEST_CASE("presets: SparseLoCo needs its error feedback", "[presets][fast]") {
  using codec = presets::detail::sparse_loco_codec;
  const auto without = [] {
    return comm::rounds{
        axis::every{5},
        axis::gather_mean<codec, collective::contributor_mean>{codec{compress::no_transform{}, compress::top_k{{.k = 4}}}},
        axis::outer<optim::sgd>{0.5F}};
  };
  const double with = distance_after(
      400, [] { return make(presets::sparse_loco_options{.local_steps = 5, .k = 4, .outer_learning_rate = 0.5F}); });
  INFO("with: " << with);
  CHECK(with < 0.1);
  CHECK(distance_after(400, without) > 2 * with);
}

TEST_CASE("presets: StellaTrain needs its error feedback", "[presets][fast]") {
  struct plain : optim::sparse_sgd {
    plain() : optim::sparse_sgd{optim::sparse_sgd_options{.momentum = 0}} {}
  };
  const auto without = [] {
    return comm::rounds{axis::every{1}, axis::gradient{}, axis::one_round_late{},
                        axis::group_threshold_mean{{.share = 0.4F}}};
  };
  const double with = distance_after<plain>(400, [] { return make(presets::stella_train_options{.share = 0.4}); });
  INFO("with: " << with);
  CHECK(with < 0.1);
  CHECK(distance_after<plain>(400, without) > 2 * with);
}
