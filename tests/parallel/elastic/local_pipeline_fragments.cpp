// SPDX-License-Identifier: Apache-2.0
// Pipelines whose replicas take steps of their own, and exchange what they moved in fragments, some of them later.
#include <causeway/presets/local_updates.hpp>
#include <causeway/presets/overlapped.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "parallel/elastic/local_pipeline_world.hpp"
#include "support/catch.hpp"

using namespace causeway;

namespace {

/// Three fragments after 2, 4 and 6 steps; a row is made before the one that was made before it is applied.
struct streaming : presets::streaming_diloco_options {
  static constexpr bool has_own_rounds = true;
  streaming() { local_steps = 6, overlap_steps = 3; }
};
/// The same with exact rows.
struct exact_streaming : streaming {
  [[nodiscard]] auto policy() const {
    return comm::rounds{axis::staggered{local_steps}, axis::strided{blocks_in_fragment}, axis::gather_mean<>{},
                        axis::delayed{overlap_steps, local_share},
                        axis::outer<optim::nesterov>{outer_learning_rate, optim::nesterov{{.momentum = outer_momentum}}}};
  }
};
/// Fragments are due in every step.
struct brief_streaming : presets::streaming_diloco_options {};

// ---- by hand: two whole models with the halves of each batch ------------------------------------------------------------

/// Of one fragment of both.
struct fragment_by_hand {
  std::vector<std::size_t> values{};  // where they lie
  std::uint64_t due = 0;
  bool made = false;
  std::array<std::vector<float>, 2> moved{};
  std::vector<float> velocity{};
};

struct by_hand {
  std::uint64_t period = 0, late = 0;
  float local_share = 0, rate = 0, momentum = 0;
  bool by_norm = false;  // with EDiT's weights
  std::vector<fragment_by_hand> fragments{};
  std::span<float> shared{};

  void make(fragment_by_hand& f, const std::array<std::span<float>, 2>& models) {
    for (std::size_t m = 0; m < 2; ++m) {
      f.moved[m].clear();
      for (const std::size_t i : f.values) f.moved[m].push_back(shared[i] - models[m][i]);
    }
    f.made = true;
  }

  [[nodiscard]] std::vector<float> mean_of(const fragment_by_hand& f) const {
    std::array<double, 2> weight{0.5, 0.5};
    const auto norm = [](const std::vector<float>& row) {
      double sum = 0;
      for (const float v : row) sum += double{v} * v;
      return std::sqrt(sum);
    };
    if (by_norm) {
      const double first = std::exp(-norm(f.moved[0])), second = std::exp(-norm(f.moved[1]));
      weight = {first / (first + second), second / (first + second)};
    }
    std::vector<float> mean;
    for (std::size_t k = 0; k < f.values.size(); ++k)
      mean.push_back(static_cast<float>(weight[0] * f.moved[0][k] + weight[1] * f.moved[1][k]));
    const double clip = by_norm ? std::min(1.0, 10 / (norm(mean) + 1e-6)) : 1.0;
    for (float& v : mean) v *= static_cast<float>(clip);
    return mean;
  }

  void apply(fragment_by_hand& f, const std::array<std::span<float>, 2>& models) {
    const std::vector<float> mean = mean_of(f);
    f.velocity.resize(mean.size(), 0.0F);
    for (std::size_t k = 0; k < mean.size(); ++k) {
      f.velocity[k] = momentum * f.velocity[k] + mean[k];
      float& value = shared[f.values[k]];
      value -= rate * (mean[k] + momentum * f.velocity[k]);
      for (const auto& model : models) {
        float& own = model[f.values[k]];
        own = local_share * own + (1 - local_share) * value;
      }
    }
    f.made = false;
    f.due += period;
  }

  /// After step `s`.
  void exchange(std::uint64_t s, bool last, const std::array<std::span<float>, 2>& models) {
    for (fragment_by_hand& f : fragments) {
      if (!f.made && (s == f.due || last)) make(f, models);
      if (f.made && (s == f.due + late || last)) apply(f, models);
    }
  }
};

/// With the numbers of `streaming`, which has every second block in a fragment.
by_hand streaming_by_hand() {
  by_hand with{.period = 6, .late = 3, .local_share = 0.5F, .rate = 0.4F, .momentum = 0.9F};
  for (const std::uint64_t first : {2U, 4U, 6U}) with.fragments.push_back({.due = first});
  return with;
}
std::size_t fragment_of_block(int block) { return block < 0 || block > 3 ? 0U : 1U + static_cast<unsigned>(block) % 2U; }

support::parameters trained_by_hand(const support::elastic_world_options& o, by_hand with,
                                    const std::function<std::size_t(int)>& fragment_of) {
  return support::two_models_by_hand(o, [&](std::uint64_t steps, parameter_store& shared, const auto& models) {
    if (steps == 1) {
      for (const parameter_segment& s : shared.segments()) {
        auto& lie = with.fragments.at(fragment_of(s.block)).values;
        for (std::int64_t i = 0; i < s.size(); ++i) lie.push_back(static_cast<std::size_t>(s.offset + i));
      }
    }
    with.shared = shared.values();
    with.exchange(steps, steps == o.steps, models);
  });
}

}  // namespace

TEST_CASE("local pipeline: fragments are those of the whole model, and rows that are made early are applied later",
          "[parallel][elastic][fast]") {
  const auto o = support::two_pipelines();
  const auto exact = trained_by_hand(o, streaming_by_hand(), fragment_of_block);
  CHECK(support::off(support::undisturbed<exact_streaming>(o), exact, o.layers) < 1e-4);
  CHECK(support::off(support::undisturbed<streaming>(o), exact, o.layers) < 0.2);  // by the codes' 4 bits
}

TEST_CASE("local pipeline: the run's last step is followed by an exchange of all fragments, whatever is due",
          "[parallel][elastic][fast]") {
  auto o = support::two_pipelines();
  o.steps = GENERATE(4U, 8U, 10U);
  const auto exact = trained_by_hand(o, streaming_by_hand(), fragment_of_block);
  CHECK(support::off(support::undisturbed<exact_streaming>(o), exact, o.layers) < 1e-4);
}

TEST_CASE("local pipeline: layers that count by their norms are single blocks, and what lies at each end",
          "[parallel][elastic][fast]") {
  const auto o = support::two_pipelines();
  by_hand with{.period = support::steps_of_round, .rate = 0.7F, .momentum = 0.9F, .by_norm = true};
  for (std::size_t f = 0; f < 6; ++f) with.fragments.push_back({.due = support::steps_of_round});
  const auto exact = trained_by_hand(o, with, [](int block) { return static_cast<std::size_t>(block + 1); });
  CHECK(support::off(support::undisturbed<presets::edit_options>(o), exact, o.layers) < 1e-4);
}

TEMPLATE_TEST_CASE("local pipeline: rounds in fragments go on whoever is lost, and let others in", "[parallel][elastic]",
                   presets::edit_options, streaming, brief_streaming) {
  support::goes_on_whoever_is_killed<TestType>(11, 0.03);
  support::lets_newcomers_in<TestType>();
  support::goes_on_from_checkpoints<TestType>();
}

TEMPLATE_TEST_CASE("local pipeline: and whoever is lost at every single network call", "[parallel][elastic][slow]",
                   presets::edit_options, streaming) {
  support::goes_on_whoever_is_killed<TestType>(1, 0.03);
}

/// How far a run may be off one without faults where a spare peer takes a lost one's place.
template <class Options>
void spare_peers_take_over(double most_off, double most_loss) {
  auto o = support::two_pipelines();
  o.steps = 15;
  support::spare_peers_take_over<Options>(o, 400, 41, [&](const auto& all, const auto& quiet) {
    CHECK(support::off(all, quiet, o.layers) < most_off);
    CHECK(std::abs(support::held_out_loss(all, o.layers) / support::held_out_loss(quiet, o.layers) - 1) < most_loss);
  });
}

TEST_CASE("local pipeline: a spare peer takes up all fragments' momentum", "[parallel][elastic][fast]") {
  spare_peers_take_over<presets::edit_options>(0.4, 0.03);  // the same steps, with other moments
  spare_peers_take_over<streaming>(0.8, 0.03);              // what a replica moved in the other fragments is lost, too
}

TEST_CASE("local pipeline: a stage that nobody has any more is had again with its fragments' momentum",
          "[parallel][elastic][fast]") {
  support::lost_stages_come_back<presets::edit_options>(23);  // all fragments are due together
}
