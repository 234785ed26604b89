// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_GROUPS_BY_HAND_HPP
#define CAUSEWAY_TESTS_SUPPORT_GROUPS_BY_HAND_HPP

// Policies whose peers meet in groups that can be said without the run's seed, and four whole models that are exchanged as
// they say, by hand.

#include <causeway/axis/content.hpp>
#include <causeway/axis/every.hpp>
#include <causeway/axis/exchange.hpp>
#include <causeway/axis/fragments.hpp>
#include <causeway/axis/groups.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/presets/gossip.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace support {

struct moshpit : causeway::presets::moshpit_sgd_options {
  moshpit() { side = 2; }
};
/// Pairs, other ones in each exchange and for each fragment.
struct pairs_in_turn {
  static constexpr causeway::axis::part decides = causeway::axis::part::group;
  static constexpr bool everybody = false;
  [[nodiscard]] causeway::result<void> check(std::uint32_t) const { return {}; }
  [[nodiscard]] static causeway::net::peer_index partner(causeway::net::peer_index self, std::uint64_t number) {
    return self ^ static_cast<causeway::net::peer_index>(1 + number % 3);
  }
  [[nodiscard]] std::vector<causeway::net::peer_index> members(const causeway::axis::group_question& q) const {
    const causeway::net::peer_index other = partner(q.self, q.number + q.fragment);
    if (other >= q.peers) return {q.self};
    return {std::min(q.self, other), std::max(q.self, other)};
  }
  void formed(const causeway::axis::group_question&) {}
  void serialize(auto&) {}
};
struct gossip_in_pairs {
  std::uint32_t local_steps = 3;
  [[nodiscard]] auto policy() const {
    using namespace causeway;
    return comm::rounds{axis::every{local_steps}, pairs_in_turn{}, axis::pseudo_gradient_and_anchor{},
                        axis::gather_mean<>{}, axis::gossip_nesterov{presets::noloco_options{}.outer}};
  }
};

/// Fragments of equal size, each with partners of its own.
inline constexpr std::uint32_t segments = 3;
struct gossip_in_segments {
  std::uint32_t local_steps = 3;
  [[nodiscard]] auto policy() const {
    using namespace causeway;
    return comm::rounds{axis::every{local_steps}, pairs_in_turn{}, axis::parameters{}, axis::balanced{segments},
                        axis::gather_mean<>{}};
  }
};

// ---- by hand: four whole models with the quarters of each batch ---------------------------------------------------------

using row = std::vector<float>;
inline constexpr std::size_t replicas = 4;
using live_models = std::array<std::span<float>, replicas>;
using model_groups = std::array<std::vector<causeway::net::peer_index>, replicas>;

/// Of the same values of these.
template <class Models>
row mean_of(const Models& all, const std::vector<causeway::net::peer_index>& group) {
  row mean(all[0].size(), 0.0F);
  for (const causeway::net::peer_index m : group) {
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += all[m][i] / static_cast<float>(group.size());
  }
  return mean;
}
/// Those of a grid of two by two; or all.
struct grid_by_hand {
  causeway::axis::grid grid{2, 2};
  std::uint64_t number = 0;
  model_groups next(bool together) {
    model_groups groups;
    if (number % grid.cycle() == 0) grid = causeway::axis::grid{2, 2};  // where peers come and go it begins anew
    causeway::axis::group_question q{.number = number++, .peers = replicas};
    for (q.self = 0; q.self < replicas; ++q.self)
      groups[q.self] = together ? std::vector<causeway::net::peer_index>{0, 1, 2, 3} : grid.members(q);
    grid.formed(q);
    return groups;
  }
};

/// Moshpit's step. `together`: everybody meets everybody.
struct means_by_hand {
  bool together = false;
  grid_by_hand grid{};

  void exchange(const causeway::parameter_store&, const live_models& models) {
    const model_groups groups = grid.next(together);
    std::array<row, replicas> next;
    for (std::size_t m = 0; m < replicas; ++m) next[m] = mean_of(models, groups[m]);
    for (std::size_t m = 0; m < replicas; ++m) std::copy(next[m].begin(), next[m].end(), models[m].begin());
  }
};

/// NoLoCo's, with a velocity and shared parameters for each model.
struct gossip_by_hand {
  bool together = false;
  std::uint64_t number = 0;
  std::array<row, replicas> anchor{}, velocity{};

  void exchange(const causeway::parameter_store& began, const live_models& models) {
    const model_groups groups = pairs();
    if (anchor[0].empty()) anchor.fill(row{began.values().begin(), began.values().end()});
    const causeway::presets::noloco_options o;
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

 private:
  model_groups pairs() {
    model_groups groups;
    for (causeway::net::peer_index m = 0; m < replicas; ++m) {
      const causeway::net::peer_index other = pairs_in_turn::partner(m, number);
      groups[m] = together ? std::vector<causeway::net::peer_index>{0, 1, 2, 3}
                           : std::vector{std::min(m, other), std::max(m, other)};
    }
    ++number;
    return groups;
  }
};

/// A mean of pairs in each segment of the model.
struct segments_by_hand {
  std::uint64_t number = 0;

  void exchange(const causeway::parameter_store& whole, const live_models& models) {
    const auto length = static_cast<std::size_t>(whole.length());
    const auto cuts = causeway::axis::balanced{segments}.cut(whole.segments(), length).value();
    for (std::size_t f = 0; f < segments; ++f) {
      for (causeway::net::peer_index m = 0; m < replicas; ++m) {
        const causeway::net::peer_index other = pairs_in_turn::partner(m, number + f);
        if (other < m) continue;
        for (const causeway::index_range& r : cuts[f].ranges) {
          for (auto i = static_cast<std::size_t>(r.begin); i < static_cast<std::size_t>(r.end); ++i) {
            models[m][i] = models[other][i] = (models[m][i] + models[other][i]) / 2;
          }
        }
      }
    }
    ++number;
  }
};

/// To be called after every step of a run of `steps`. The last exchange is a mean over all.
template <class Exchange>
struct groups_by_hand {
  std::uint64_t steps, steps_of_round;
  Exchange with;

  void operator()(std::uint64_t step, causeway::parameter_store& shared, const live_models& models) {
    if (step == steps) {
      const row mean = mean_of(models, {0, 1, 2, 3});
      std::copy(mean.begin(), mean.end(), shared.values().begin());
    } else if (step % steps_of_round == 0) {
      with.exchange(shared, models);
    }
  }
};
template <class Exchange>
groups_by_hand(std::uint64_t, std::uint64_t, Exchange) -> groups_by_hand<Exchange>;

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_GROUPS_BY_HAND_HPP
