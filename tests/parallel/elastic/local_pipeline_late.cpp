// SPDX-License-Identifier: Apache-2.0
// Pipelines whose replicas take steps of their own, and exchange rows whose results are applied a round later.
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/overlapped.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "parallel/elastic/local_pipeline_world.hpp"
#include "support/catch.hpp"

using namespace causeway;

namespace {

struct eager : presets::eager_diloco_options {
  static constexpr float momentum = 0.3F;  // of short rounds that move far
  static constexpr bool own_is_fresh = true, keeps_unsent = false;
  eager() { outer_momentum = momentum; }
};
/// Everything a round late, or with what was not sent in the live parameters, which is nothing here.
struct late {
  static constexpr float momentum = 0.3F;
  static constexpr bool own_is_fresh = false, keeps_unsent = false;
  [[nodiscard]] static auto policy() {
    return comm::rounds{axis::every{support::steps_of_round}, axis::one_round_late{}, axis::split_mean<>{},
                        axis::outer<optim::nesterov>{0.7F, optim::nesterov{{.momentum = momentum}}}};
  }
};
struct exact_cocktail {
  static constexpr float momentum = 0;
  static constexpr bool own_is_fresh = false, keeps_unsent = true;
  [[nodiscard]] static auto policy() {
    return comm::rounds{axis::every{support::steps_of_round}, axis::implicit_residual{}, axis::one_round_late{},
                        axis::split_mean<>{}, axis::outer<optim::nesterov>{0.7F, optim::nesterov{{.momentum = momentum}}}};
  }
};
/// An exchange after every step.
struct cocktail : presets::cocktail_sgd_options {};

// ---- by hand: two whole models with the halves of each batch ------------------------------------------------------------

using row = std::vector<float>;

struct outer_by_hand {
  float momentum = 0;
  row velocity{};

  void step(row& x, const row& mean) {
    velocity.resize(mean.size(), 0.0F);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      velocity[i] = momentum * velocity[i] + mean[i];
      x[i] -= 0.7F * (mean[i] + momentum * velocity[i]);
    }
  }
};

template <class Options>
struct by_hand {
  outer_by_hand of_shared{Options::momentum};
  std::array<outer_by_hand, 2> of_own{outer_by_hand{Options::momentum}, outer_by_hand{Options::momentum}};
  std::array<row, 2> sent{}, own{};  // the rows under way; what each model has applied of its own
  bool made = false;

  /// What a model has moved since its last row.
  row moved(std::size_t m, const row& shared, std::span<const float> live) const {
    row all;
    for (std::size_t i = 0; i < shared.size(); ++i) {
      const float under_way = Options::keeps_unsent && made ? sent[m][i] : 0.0F;
      all.push_back(shared[i] + own[m][i] - under_way - live[i]);
    }
    return all;
  }

  void exchange(bool last, row& shared, const std::array<std::span<float>, 2>& models) {
    std::array<row, 2> fresh;
    for (std::size_t m = 0; m < 2; ++m) {
      own[m].resize(shared.size(), 0.0F);
      fresh[m] = moved(m, shared, models[m]);
      for (std::size_t i = 0; last && made && i < shared.size(); ++i) sent[m][i] += fresh[m][i];
    }
    if (last && !made) sent = fresh;
    row mean(shared.size(), 0.0F);
    for (std::size_t i = 0; (made || last) && i < shared.size(); ++i) mean[i] = (sent[0][i] + sent[1][i]) / 2;
    if (made || last) of_shared.step(shared, mean);
    for (std::size_t m = 0; m < 2 && !last; ++m) {
      row own_part = fresh[m];
      for (std::size_t i = 0; i < shared.size(); ++i) own_part[i] = (fresh[m][i] - (made ? sent[m][i] : 0.0F)) / 2;
      if (Options::own_is_fresh) of_own[m].step(own[m], own_part);
      for (std::size_t i = 0; i < shared.size(); ++i)
        models[m][i] = shared[i] + own[m][i] - (Options::keeps_unsent ? fresh[m][i] : 0.0F);
    }
    sent = fresh;
    made = true;
  }
};

template <class Options>
support::parameters trained_by_hand(const support::elastic_world_options& o) {
  by_hand<Options> with;
  return support::two_models_by_hand(o, [&](std::uint64_t steps, parameter_store& shared, const auto& models) {
    if (steps % support::steps_of_round != 0 && steps != o.steps) return;
    row values{shared.values().begin(), shared.values().end()};
    with.exchange(steps == o.steps, values, models);
    std::copy(values.begin(), values.end(), shared.values().begin());
  });
}

}  // namespace

TEMPLATE_TEST_CASE("local pipeline: results a round late are those of whole models, and the last exchange takes all along",
                   "[parallel][elastic][fast]", eager, late, exact_cocktail) {
  auto o = support::two_pipelines();
  o.steps = GENERATE(2U, 5U, 9U, 13U);
  CHECK(support::off(support::undisturbed<TestType>(o), trained_by_hand<TestType>(o), o.layers) < 1e-4);
}

TEMPLATE_TEST_CASE("local pipeline: results a round late go on whoever is lost, and let others in", "[parallel][elastic]",
                   eager, cocktail) {
  support::goes_on_whoever_is_killed<TestType>(11, 0.03);
  support::lets_newcomers_in<TestType>();
  support::goes_on_from_checkpoints<TestType>();
}

TEST_CASE("local pipeline: a spare peer takes part in results a round late", "[parallel][elastic][fast]") {
  auto o = support::two_pipelines();
  o.steps = 15;
  support::spare_peers_take_over<eager>(o, 400, 41, [&](const auto& all, const auto& quiet) {
    CHECK(support::off(all, quiet, o.layers) < 0.5);
    CHECK(std::abs(support::held_out_loss(all, o.layers) / support::held_out_loss(quiet, o.layers) - 1) < 0.03);
  });
}

TEMPLATE_TEST_CASE("local pipeline: results a round late and whoever is lost at every single network call",
                   "[parallel][elastic][slow]", eager, cocktail) {
  support::goes_on_whoever_is_killed<TestType>(1, 0.03);
}
