// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_LATE_ROWS_BY_HAND_HPP
#define CAUSEWAY_TESTS_SUPPORT_LATE_ROWS_BY_HAND_HPP

// What two whole models, with the halves of each batch, are to come to where the means of what they moved are applied a
// round later.

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace support {

/// Nesterov with a rate of 0.7.
struct outer_by_hand {
  float momentum = 0;
  std::vector<float> velocity{};

  void step(std::span<float> x, const std::vector<float>& mean) {
    velocity.resize(mean.size(), 0.0F);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      velocity[i] = momentum * velocity[i] + mean[i];
      x[i] -= 0.7F * (mean[i] + momentum * velocity[i]);
    }
  }
};

/// `Options`: `momentum`; `own_is_fresh`, where a model's own part is applied at once; `keeps_unsent`, where what was not
/// sent stays in the live parameters.
template <class Options>
struct late_rows_by_hand {
  using row = std::vector<float>;

  outer_by_hand of_shared{Options::momentum};
  std::array<outer_by_hand, 2> of_own{outer_by_hand{Options::momentum}, outer_by_hand{Options::momentum}};
  std::array<row, 2> sent{}, own{};  // the rows under way; what each model has applied of its own
  std::array<float, 2> behind{};     // how many samples the rows under way are of
  bool made = false;

  /// What a model has moved since its last row.
  row moved(std::size_t m, std::span<const float> shared, std::span<const float> live) const {
    row all;
    for (std::size_t i = 0; i < shared.size(); ++i) {
      const float under_way = Options::keeps_unsent && made ? sent[m][i] : 0.0F;
      all.push_back(shared[i] + own[m][i] - under_way - live[i]);
    }
    return all;
  }

  /// After the last step of a round. `last`: of the run. `samples`: that each model had in the round.
  void exchange(bool last, std::span<float> shared, const std::array<std::span<float>, 2>& models,
                const std::array<float, 2>& samples = {1, 1}) {
    std::array<row, 2> fresh;
    for (std::size_t m = 0; m < 2; ++m) {
      own[m].resize(shared.size(), 0.0F);
      fresh[m] = moved(m, shared, models[m]);
      for (std::size_t i = 0; last && made && i < shared.size(); ++i) sent[m][i] += fresh[m][i];
    }
    for (std::size_t m = 0; m < 2 && last; ++m) behind[m] += samples[m];
    if (last && !made) sent = fresh;
    row mean(shared.size(), 0.0F);
    for (std::size_t i = 0; (made || last) && i < shared.size(); ++i)
      mean[i] = (behind[0] * sent[0][i] + behind[1] * sent[1][i]) / (behind[0] + behind[1]);
    if (made || last) of_shared.step(shared, mean);
    for (std::size_t m = 0; m < 2 && !last; ++m) {
      row own_part = fresh[m];
      for (std::size_t i = 0; i < shared.size(); ++i) own_part[i] = (fresh[m][i] - (made ? sent[m][i] : 0.0F)) / 2;
      if (Options::own_is_fresh) of_own[m].step(own[m], own_part);
      for (std::size_t i = 0; i < shared.size(); ++i)
        models[m][i] = shared[i] + own[m][i] - (Options::keeps_unsent ? fresh[m][i] : 0.0F);
    }
    sent = fresh;
    behind = samples;
    made = true;
  }
};

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_LATE_ROWS_BY_HAND_HPP
