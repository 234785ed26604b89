// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_UTILISATION_IPP
#define CAUSEWAY_PLAN_IMPL_UTILISATION_IPP

#include <causeway/plan/utilisation.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

/// Runs steps one after another and knows at each moment when the device and the link are free.
class step_timeline {
 public:
  CAUSEWAY_DECL step_timeline(const training_step& step, const exchange_pattern& pattern, double bits_per_second)
      : pattern_{pattern},
        task_seconds_{step.seconds / static_cast<double>(3 * step.layers - 1)},
        exchange_seconds_{pattern.bits * step.parameters / static_cast<double>(step.layers) / bits_per_second},
        exchanges_(step.layers) {
    if (pattern_.spacing == 0) pattern_.spacing = pattern_.period / pattern_.fragments;
  }

  /// Seconds at the end of the last step's backward pass.
  [[nodiscard]] double now() const noexcept { return device_; }

  CAUSEWAY_DECL void run(std::size_t steps) {
    for (std::size_t i = 0; i < steps; ++i, ++step_) {
      forward();
      backward();
    }
  }

 private:
  struct exchange {
    std::size_t due = std::numeric_limits<std::size_t>::max();  // the first step that must have the result
    double arrives = 0;
  };

  CAUSEWAY_DECL void forward() {
    for (const exchange& e : exchanges_) {
      if (e.due <= step_) device_ = std::max(device_, e.arrives);
      device_ += task_seconds_;
    }
  }

  CAUSEWAY_DECL void backward() {
    for (std::size_t layer = exchanges_.size(); layer-- > 0;) {
      device_ += task_seconds_;  // of the weights: first, as the link can start with them
      if (is_sent(layer)) send(layer);
      if (layer > 0) device_ += task_seconds_;  // of the activations
    }
  }

  CAUSEWAY_DECL [[nodiscard]] bool is_sent(std::size_t layer) const noexcept {
    const std::size_t offset = layer % pattern_.fragments * pattern_.spacing;
    return (step_ + 1 + pattern_.period - offset) % pattern_.period == 0;
  }

  CAUSEWAY_DECL void send(std::size_t layer) {
    link_ = std::max(link_, device_) + exchange_seconds_;
    exchanges_[layer] = {step_ + 1 + pattern_.overlap, link_};
  }

  exchange_pattern pattern_;
  double task_seconds_;
  double exchange_seconds_;
  std::vector<exchange> exchanges_;
  std::size_t step_ = 0;
  double device_ = 0;
  double link_ = 0;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL double utilisation(const training_step& step, const exchange_pattern& pattern, double bits_per_second) {
  CAUSEWAY_EXPECT(step.layers > 0 && step.seconds > 0 && step.parameters >= 0 && bits_per_second > 0);
  CAUSEWAY_EXPECT(pattern.period > 0 && pattern.fragments > 0 && pattern.overlap < pattern.period);
  CAUSEWAY_EXPECT((pattern.fragments - 1) * pattern.spacing < pattern.period);
  const std::size_t periods = std::max<std::size_t>(2, 512 * (pattern.overlap + 1) / pattern.period + 1);
  detail::step_timeline timeline{step, pattern, bits_per_second};
  timeline.run(periods * pattern.period);
  const double begin = timeline.now();
  timeline.run(periods * pattern.period);
  const double computing = static_cast<double>(periods * pattern.period) * step.seconds;
  return computing / (timeline.now() - begin);
}

CAUSEWAY_DECL double least_bandwidth(const training_step& step, const exchange_pattern& pattern, double target,
                                     std::span<const double> grid) {
  const auto found = std::partition_point(grid.begin(), grid.end(), [&](double b) {
    return utilisation(step, pattern, b) < target;  // rises with bandwidth
  });
  return found == grid.end() ? std::numeric_limits<double>::infinity() : *found;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_UTILISATION_IPP
