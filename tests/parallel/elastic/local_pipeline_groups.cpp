// SPDX-License-Identifier: Apache-2.0
// Pipelines whose replicas take steps of their own and meet in groups, other ones each time.
#include <causeway/axis/groups.hpp>
#include <causeway/presets/gossip.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "parallel/elastic/local_pipeline_world.hpp"
#include "support/catch.hpp"

using namespace causeway;

namespace {

/// Four replicas of two stages: pairs are not everybody.
support::elastic_world_options four_pipelines() {
  auto o = support::two_pipelines();
  o.hosts = 8;
  return o;
}

struct moshpit : presets::moshpit_sgd_options {
  moshpit() { side = 2; }
};
/// Pairs that can be said without the run's seed.
struct gossip_in_a_grid {
  [[nodiscard]] static auto policy() {
    return comm::rounds{axis::every{support::steps_of_round}, axis::grid{2, 2}, axis::pseudo_gradient_and_anchor{},
                        axis::gather_mean<>{}, axis::gossip_nesterov{presets::noloco_options{}.outer}};
  }
};

/// Fragments of equal size, each with partners of its own.
struct pairs_by_fragment {
  static constexpr axis::part decides = axis::part::group;
  static constexpr bool everybody = false;
  [[nodiscard]] result<void> check(std::uint32_t) const { return {}; }
  [[nodiscard]] static net::peer_index partner(net::peer_index self, std::size_t fragment) {
    return self ^ static_cast<net::peer_index>(1 + fragment % 3);
  }
  [[nodiscard]] std::vector<net::peer_index> members(const axis::group_question& q) const {
    const net::peer_index other = partner(q.self, q.fragment);
    if (other >= q.peers) return {q.self};
    return {std::min(q.self, other), std::max(q.self, other)};
  }
  void formed(const axis::group_question&) {}
  void serialize(auto&) {}
};
constexpr std::uint32_t segments = 3;
struct gossip_in_segments {
  [[nodiscard]] static auto policy() {
    return comm::rounds{axis::every{support::steps_of_round}, pairs_by_fragment{}, axis::parameters{},
                        axis::balanced{segments}, axis::gather_mean<>{}};
  }
};

// ---- by hand: four whole models with the quarters of each batch ---------------------------------------------------------

using row = std::vector<float>;
constexpr std::size_t replicas = 4;
using live_models = std::array<std::span<float>, replicas>;

/// Of the same values of these.
template <class Models>
row mean_of(const Models& all, const std::vector<net::peer_index>& group) {
  row mean(all[0].size(), 0.0F);
  for (const net::peer_index m : group) {
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += all[m][i] / static_cast<float>(group.size());
  }
  return mean;
}

/// Moshpit's step.
struct means_by_hand {
  void exchange(const live_models& models, const std::array<std::vector<net::peer_index>, replicas>& groups) {
    std::array<row, replicas> next;
    for (std::size_t m = 0; m < replicas; ++m) next[m] = mean_of(models, groups[m]);
    for (std::size_t m = 0; m < replicas; ++m) std::copy(next[m].begin(), next[m].end(), models[m].begin());
  }
};

/// NoLoCo's, with a velocity and shared parameters for each model.
struct gossip_by_hand {
  std::array<row, replicas> anchor{}, velocity{};

  void exchange(const live_models& models, const std::array<std::vector<net::peer_index>, replicas>& groups) {
    const presets::noloco_options o;
    std::array<row, replicas> moved;  // from the shared ones
    for (std::size_t m = 0; m < replicas; ++m) {
      for (std::size_t i = 0; i < anchor[m].size(); ++i) moved[m].push_back(models[m][i] - anchor[m][i]);
    }
    const auto before = anchor;
    for (std::size_t m = 0; m < replicas; ++m) {
      const row mean = mean_of(moved, groups[m]), theirs = mean_of(before, groups[m]);
      velocity[m].resize(mean.size(), 0.0F);
      for (std::size_t i = 0; i < mean.size(); ++i) {
        float& v = velocity[m][i];
        v = o.outer.alpha * v + o.outer.beta * mean[i] + o.outer.gamma * (theirs[i] - before[m][i]);
        models[m][i] = anchor[m][i] += v;
      }
    }
  }
};

/// The last exchange is a mean over all. `together`: so are the others.
template <class Step>
support::parameters trained_by_hand(const support::elastic_world_options& o, Step with, bool together = false) {
  axis::grid grid{2, 2};
  std::uint64_t number = 0;
  return support::models_by_hand<replicas>(o, [&](std::uint64_t steps, parameter_store& shared, const live_models& models) {
    if constexpr (requires { with.anchor; }) {
      if (steps == 1) with.anchor.fill(row{shared.values().begin(), shared.values().end()});
    }
    if (steps == o.steps) {
      const row mean = mean_of(models, {0, 1, 2, 3});
      std::copy(mean.begin(), mean.end(), shared.values().begin());
    } else if (steps % support::steps_of_round == 0) {
      std::array<std::vector<net::peer_index>, replicas> groups;
      if (number % grid.cycle() == 0) grid = axis::grid{2, 2};  // where peers come and go it begins anew
      axis::group_question q{.number = number++, .peers = replicas};
      for (q.self = 0; q.self < replicas; ++q.self)
        groups[q.self] = together ? std::vector<net::peer_index>{0, 1, 2, 3} : grid.members(q);
      grid.formed(q);
      with.exchange(models, groups);
    }
  });
}

// A stage's place in the whole model's flat buffer, fragment by fragment. Stages have two blocks of four.
std::array<std::vector<index_range>, segments> segments_by_hand(const parameter_store& whole) {
  std::array<std::vector<index_range>, segments> all;
  for (const bool second : {false, true}) {
    std::vector<parameter_segment> part;
    std::vector<std::int64_t> from;
    std::int64_t length = 0;
    for (const parameter_segment& s : whole.segments()) {
      if ((s.block >= 2) != second) continue;
      part.push_back(s);
      from.push_back(s.offset);
      part.back().offset = length;
      length += (s.size() + 15) / 16 * 16;
    }
    const auto cuts = axis::balanced{segments}.cut(part, static_cast<std::size_t>(length)).value();
    for (std::size_t f = 0; f < segments; ++f) {
      for (std::size_t i = 0; i < part.size(); ++i) {
        const auto holds = [&](const index_range& r) { return r.begin <= part[i].offset && part[i].offset < r.end; };
        if (std::none_of(cuts[f].ranges.begin(), cuts[f].ranges.end(), holds)) continue;
        all[f].push_back({from[i], from[i] + part[i].size()});
      }
    }
  }
  return all;
}

support::parameters trained_in_segments_by_hand(const support::elastic_world_options& o) {
  return support::models_by_hand<replicas>(o, [&](std::uint64_t steps, parameter_store& shared, const live_models& models) {
    if (steps == o.steps) {
      const row mean = mean_of(models, {0, 1, 2, 3});
      std::copy(mean.begin(), mean.end(), shared.values().begin());
    } else if (steps % support::steps_of_round == 0) {
      const auto all = segments_by_hand(shared);
      for (std::size_t f = 0; f < segments; ++f) {
        for (net::peer_index m = 0; m < replicas; ++m) {
          const net::peer_index other = pairs_by_fragment::partner(m, f);
          if (other < m) continue;
          for (const index_range& r : all[f]) {
            for (auto i = static_cast<std::size_t>(r.begin); i < static_cast<std::size_t>(r.end); ++i) {
              models[m][i] = models[other][i] = (models[m][i] + models[other][i]) / 2;
            }
          }
        }
      }
    }
  });
}

}  // namespace

TEST_CASE("local pipeline: each fragment of a stage meets partners of its own", "[parallel][elastic][fast]") {
  auto o = four_pipelines();
  o.steps = GENERATE(5U, 13U);
  const auto is = support::undisturbed<gossip_in_segments>(o);
  CHECK(support::off(is, trained_in_segments_by_hand(o), o.layers) < 1e-4);
  CHECK(support::off(is, trained_by_hand(o, means_by_hand{}, true), o.layers) > 1e-2);
}

TEST_CASE("local pipeline: all stages of a replica meet those of the same other replicas", "[parallel][elastic][fast]") {
  auto o = four_pipelines();
  o.steps = GENERATE(5U, 13U);
  const auto means = support::undisturbed<moshpit>(o);
  CHECK(support::off(means, trained_by_hand(o, means_by_hand{}), o.layers) < 1e-4);
  CHECK(support::off(means, trained_by_hand(o, means_by_hand{}, true), o.layers) > 1e-2);
  const auto gossip = support::undisturbed<gossip_in_a_grid>(o);
  CHECK(support::off(gossip, trained_by_hand(o, gossip_by_hand{}), o.layers) < 1e-4);
  CHECK(support::off(gossip, trained_by_hand(o, gossip_by_hand{}, true), o.layers) > 1e-2);
}

TEMPLATE_TEST_CASE("local pipeline: replicas that meet in groups go on whoever is lost, and let others in",
                   "[parallel][elastic]", moshpit, presets::noloco_options, presets::bacombo_options) {
  support::goes_on_whoever_is_killed<TestType>(11, 0.03);
  support::goes_on_whoever_is_killed<TestType>(67, 0.03, four_pipelines());
  support::lets_newcomers_in<TestType>();
  support::goes_on_from_checkpoints<TestType>();
}

TEMPLATE_TEST_CASE("local pipeline: replicas in groups and whoever is lost at every single network call",
                   "[parallel][elastic][slow][every_call]", moshpit, presets::noloco_options, presets::bacombo_options) {
  support::goes_on_whoever_is_killed<TestType>(1, 0.03);
  support::goes_on_whoever_is_killed<TestType>(5, 0.03, four_pipelines());
}

TEMPLATE_TEST_CASE("local pipeline: who gets a block begins with what the last exchange left its giver",
                   "[parallel][elastic][fast]", moshpit, presets::noloco_options, presets::bacombo_options) {
  auto o = support::two_pipelines();
  o.steps = 15;
  support::spare_peers_take_over<TestType>(o, 400, 41, [&](const auto& all, const auto& quiet) {
    CHECK(support::off(all, quiet, o.layers) < 0.6);  // the same steps, with other moments
    CHECK(std::abs(support::held_out_loss(all, o.layers) / support::held_out_loss(quiet, o.layers) - 1) < 0.03);
  });
  support::lost_stages_come_back<TestType>(23);
}
